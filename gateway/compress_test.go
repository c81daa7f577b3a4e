package gateway_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// manyQueued answers GET /queue with more than fits into one packet.
func manyQueued(c *gatewaytest.Coordinator) {
	c.On("GetQueue", func(context.Context, any) (any, error) {
		reply := &v1.GetQueueResponse{}
		for i := range 100 {
			reply.Jobs = append(reply.Jobs, &v1.QueuedJob{JobId: fmt.Sprintf("job_%d", i), Name: "train", Reason: "waits for GPUs"})
		}
		return reply, nil
	})
}

// An answer is compressed as the caller accepts, says the same, and is smaller; small ones are sent as they are.
func TestCompress_asTheCallerAccepts(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	manyQueued(c)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	data := func(body string) string {
		text, _, found := strings.Cut(body, `,"meta":`)
		require.True(t, found, body)
		return text
	}
	plain := g.Do("GET", rest.Prefix+"/queue", "")
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	for accepts, want := range map[string]string{"gzip": "gzip", "gzip, zstd": "zstd", "zstd;q=0, gzip;q=0.5": "gzip", "br": "", "gzip;q=0": ""} {
		r := httptest.NewRequest("GET", rest.Prefix+"/queue", nil)
		r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenAll)
		r.Header.Set("Accept-Encoding", accepts)
		w := httptest.NewRecorder()
		g.Handler.ServeHTTP(w, r)
		require.Equal(t, want, w.Header().Get("Content-Encoding"), accepts)
		require.Contains(t, w.Header().Get("Vary"), "Accept-Encoding", accepts)
		size := w.Body.Len()
		var in io.Reader = w.Body
		switch want {
		case "gzip":
			unzip, err := gzip.NewReader(in)
			require.NoError(t, err)
			in = unzip
		case "zstd":
			unzip, err := zstd.NewReader(in)
			require.NoError(t, err)
			defer unzip.Close()
			in = unzip
		}
		body, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, data(plain.Body), data(string(body)), accepts)
		require.Equal(t, plain.Header.Get("Etag"), w.Header().Get("Etag"))
		if want != "" {
			require.Less(t, size, len(plain.Body)/4)
		}
	}
	require.Empty(t, g.Do("GET", "/v1/me", "", "Accept-Encoding", "gzip").Header.Get("Content-Encoding"), "it is small")
}

// A caller that has the same data is told so without it. Writes and errors have no tag.
func TestETag_whatDidNotChangeIsNotSent(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	manyQueued(c)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	first := g.Do("GET", rest.Prefix+"/queue", "")
	tag := first.Header.Get("Etag")
	require.NotEmpty(t, tag)
	require.Equal(t, "private, no-cache", first.Header.Get("Cache-Control"))
	for _, known := range []string{tag, strings.TrimPrefix(tag, "W/"), `"other", ` + tag, "*"} {
		same := g.Do("GET", rest.Prefix+"/queue", "", "If-None-Match", known, "Accept-Encoding", "gzip")
		require.Equal(t, 304, same.Code, known)
		require.Empty(t, same.Body)
		require.Equal(t, tag, same.Header.Get("Etag"))
		require.NotEmpty(t, same.Header.Get(rest.HeaderIndex))
	}
	require.Equal(t, 304, g.Do("HEAD", rest.Prefix+"/queue", "", "If-None-Match", tag).Code)
	c.On("GetQueue", func(context.Context, any) (any, error) { return &v1.GetQueueResponse{Depth: 1}, nil })
	changed := g.Do("GET", rest.Prefix+"/queue", "", "If-None-Match", tag)
	require.Equal(t, 200, changed.Code)
	require.NotEqual(t, tag, changed.Header.Get("Etag"))
	require.Empty(t, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`).Header.Get("Etag"))
	require.Empty(t, g.Do("GET", rest.Prefix+"/nothing", "").Header.Get("Etag"))
}
