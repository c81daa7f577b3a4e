package uploads_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/uploads"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

const tokenOther = "token-other"

// uploadGates are two gateways of one cluster, with one archive.
func uploadGates(t *testing.T, c *gatewaytest.Coordinator) (one, other *gatewaytest.Gate) {
	url := "file://" + t.TempDir()
	var gates []*gatewaytest.Gate
	for range 2 {
		config := gatewaytest.Config(c)
		config.CheckpointArchive.URL = url
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: tokenOther, Tenant: "initech", User: "peter", Permissions: []string{"scaimind:manage"}})
		gates = append(gates, gatewaytest.NewGate(t, config))
	}
	return gates[0], gates[1]
}

func offerOf(t *testing.T, files ...uploads.File) string {
	text, err := json.Marshal(uploads.Tree{Files: files})
	require.NoError(t, err)
	return string(text)
}

func fileOf(path, content string) uploads.File {
	return uploads.File{Path: path, Size: int64(len(content)), Pieces: []string{uploads.Sum([]byte(content))}}
}

func packOf(t *testing.T, contents ...string) string {
	var pieces []uploads.Piece
	for _, content := range contents {
		pieces = append(pieces, uploads.Piece{SHA256: uploads.Sum([]byte(content)), Size: int64(len(content))})
	}
	pack, err := uploads.EncodePack(pieces, []byte(strings.Join(contents, "")))
	require.NoError(t, err)
	return string(pack)
}

// offered is the answer to an offer.
type offered struct {
	Upload       string   `json:"upload"`
	Complete     bool     `json:"complete"`
	Files        int      `json:"files"`
	Bytes        int64    `json:"bytes"`
	Missing      []string `json:"missing"`
	MissingBytes int64    `json:"missing_bytes"`
}

func offer(g *gatewaytest.Gate, body string, headers ...string) (o offered) {
	g.T.Helper()
	a := g.Do("POST", rest.Prefix+"/uploads", body, headers...)
	require.Equal(g.T, http.StatusOK, a.Code, a.Body)
	require.NoError(g.T, json.Unmarshal(a.Data, &o))
	return o
}

// One half goes through one gateway, the rest through the other; the tenant's jobs may use it then, and no other tenant's.
func TestUploads_throughTwoGateways(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJobs", gatewaytest.TakesAll)
	one, other := uploadGates(t, c)
	asOther := []string{"Authorization", "Bearer " + tokenOther}
	body := offerOf(t, fileOf("a", "first"), fileOf("b", "second"), uploads.File{Path: "l", Link: "a"})
	o := offer(one, body)
	require.Equal(t, offered{
		Upload: o.Upload, Files: 3, Bytes: 11, MissingBytes: 11, Missing: []string{uploads.Sum([]byte("first")), uploads.Sum([]byte("second"))},
	}, o)
	job := fmt.Sprintf(`{"name":"j","command_config":{"argv":["true"],"upload":%q}}`, o.Upload)
	schedule := `{"cron":"0 0 * * *","job":` + job + `}`
	refused := func(a *gatewaytest.Answer) {
		t.Helper()
		require.Equal(t, 422, a.Code, a.Body)
		require.Contains(t, a.Error.Message, "command_config.upload: this tenant has no complete upload "+o.Upload)
	}
	refused(one.Do("POST", rest.Prefix+"/jobs", job))
	refused(one.Do("PUT", rest.Prefix+"/schedules/nightly", schedule))

	require.JSONEq(t, `{"stored":1}`, string(one.Do("POST", rest.Prefix+"/uploads/packs", packOf(t, "first")).Data))
	require.Equal(t, []string{uploads.Sum([]byte("second"))}, offer(other, body).Missing, "only the rest")
	require.Len(t, offer(other, body, asOther...).Missing, 2, "another tenant does not learn what the archive has")
	require.Equal(t, 200, other.Do("POST", rest.Prefix+"/uploads/packs", packOf(t, "second")).Code)
	require.True(t, offer(one, body).Complete)

	for _, g := range []*gatewaytest.Gate{one, other} {
		require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", job).Code)
		require.Equal(t, 200, g.Do("PUT", rest.Prefix+"/schedules/nightly", schedule).Code)
		refused(g.Do("POST", rest.Prefix+"/jobs", job, asOther...))
		a := g.Do("POST", rest.Prefix+"/jobs/batch", `{"jobs":[{"name":"a"},`+strings.Replace(job, o.Upload, "sha256:"+strings.Repeat("0", 64), 1)+`,`+job+`]}`)
		require.Equal(t, 207, a.Code, a.Body)
		require.EqualValues(t, 2, g.Data(a)["accepted"])
		require.EqualValues(t, 422, g.Data(a)["results"].([]any)[1].(map[string]any)["http_status"])
	}
}

func TestUploads_refuse(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g, _ := uploadGates(t, c)
	for says, body := range map[string]string{
		"is no list of files":  `[]`,
		"out of the directory": offerOf(t, uploads.File{Path: "l", Link: "../x"}),
		"absolute links":       offerOf(t, uploads.File{Path: "l", Link: "/etc/passwd"}),
		"is not safe":          offerOf(t, fileOf("../x", "content")),
		"more than 256 MiB":    offerOf(t, uploads.File{Path: "x", Size: 257 << 20, Pieces: manyPieces()}),
	} {
		a := g.Do("POST", rest.Prefix+"/uploads", body)
		require.Equal(t, 422, a.Code, a.Body)
		require.Contains(t, a.Error.Message, says)
	}
	a := g.Do("POST", rest.Prefix+"/uploads/packs", strings.Replace(packOf(t, "content"), "content", "cOntent", 1))
	require.Equal(t, 422, a.Code)
	require.Contains(t, a.Error.Message, "differs from its digest")
	require.Equal(t, 413, g.Do("POST", rest.Prefix+"/uploads/packs", strings.Repeat("x", uploads.MaxPack+1)).Code)
	for _, path := range []string{"/uploads", "/uploads/packs"} {
		require.Equal(t, 403, g.Do("POST", rest.Prefix+path, "{}", "Authorization", "Bearer "+gatewaytest.TokenViewer).Code)
	}
	require.EqualValues(t, 256<<20, g.Data(g.Do("GET", rest.Prefix+"/uploads", ""))["max_bytes"])
	send := func(token string) int {
		return g.Do("POST", rest.Prefix+"/uploads", offerOf(t, fileOf("a", "x")), "Authorization", "Bearer "+token).Code
	}
	// begin sends the beginning of a part, and returns a function that sends the rest.
	begin := func(token string) (end func()) {
		body, half := io.Pipe()
		r := httptest.NewRequest("POST", rest.Prefix+"/uploads", body)
		r.Header.Set("Authorization", "Bearer "+token)
		over := make(chan struct{})
		go func() {
			defer close(over)
			g.Handler.ServeHTTP(httptest.NewRecorder(), r)
		}()
		_, err := half.Write([]byte("{")) // it is read once there is a slot
		require.NoError(t, err)
		return sync.OnceFunc(func() {
			_ = half.Close()
			<-over
		})
	}
	var end func()
	for range 5 {
		end = begin(gatewaytest.TokenAll)
		defer end()
	}
	require.Equal(t, 429, send(gatewaytest.TokenAll))
	require.Equal(t, 200, send(tokenOther), "one tenant leaves room for the others")
	for range 3 {
		defer begin(tokenOther)()
	}
	require.Equal(t, 429, send(tokenOther))
	end()
	require.Equal(t, 200, send(gatewaytest.TokenAll))
}

func manyPieces() (pieces []string) {
	for range 65 {
		pieces = append(pieces, uploads.Sum(nil))
	}
	return pieces
}

func TestUploads_withoutAnArchive(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	job := `{"name":"j","command_config":{"argv":["true"],"upload":"sha256:` + strings.Repeat("0", 64) + `"}}`
	for _, a := range []*gatewaytest.Answer{g.Do("GET", rest.Prefix+"/uploads", ""), g.Do("POST", rest.Prefix+"/uploads", "{}"), g.Do("POST", rest.Prefix+"/jobs", job)} {
		require.Equal(t, 409, a.Code, a.Body)
		require.Contains(t, a.Error.Message, "set checkpoint_archive of the gateways and of the agents")
	}
}

// An archive that cannot be written is no fault of the caller, who does not learn where it is.
func TestUploads_withABrokenArchive(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJob", func(context.Context, any) (any, error) { return &v1.SubmitJobResponse{JobId: "job_1"}, nil })
	config := gatewaytest.Config(c)
	dir := t.TempDir()
	config.CheckpointArchive.URL = "file://" + dir
	g := gatewaytest.NewGate(t, config)
	require.NoError(t, os.RemoveAll(dir))
	a := g.Do("POST", rest.Prefix+"/uploads", offerOf(t, fileOf("a", "x")))
	require.Equal(t, 503, a.Code)
	require.NotContains(t, a.Body, dir)
}
