package cores_test

import (
	"bytes"
	"context"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
)

const corePaths = "/v1/modules/scaicore"

// An execution that is over is 200, one that is not is 202.
func TestCores_invoke(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	var asked *v1.InvokeCoreRequest
	answer := &v1.Execution{ExecutionId: "exec_1", Status: "waiting"}
	c.On("InvokeCore", func(_ context.Context, request any) (any, error) {
		asked = request.(*v1.InvokeCoreRequest)
		return &v1.InvokeCoreResponse{Execution: answer}, nil
	})
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	a := g.Do("POST", corePaths+"/cores/triage/invoke", `{"input":{"n":1},"flow":"main"}`, "Prefer", "respond-async")
	require.Equal(t, 202, a.Code, a.Body)
	require.Equal(t, []any{"triage", "main", int32(0), true}, []any{asked.GetCoreId(), asked.GetFlow(), asked.GetWaitSeconds(), asked.WaitSeconds != nil})
	answer.Status, answer.FinishedAt = "completed", timestamppb.Now()
	require.Equal(t, 200, g.Do("POST", corePaths+"/cores/triage/invoke", "").Code)
	require.Nil(t, asked.WaitSeconds)
	require.Equal(t, 422, g.Do("POST", corePaths+"/cores/triage/invoke", `{"inputs":{}}`).Code)
}

func TestCores_lists(t *testing.T) {
	for path, want := range map[string]proto.Message{
		"/cores?limit=7&cursor=a":                              &v1.ListCoresRequest{Limit: 7, Cursor: "a"},
		"/executions?core_id=c&status=failed&limit=500":        &v1.ListExecutionsRequest{CoreId: "c", Status: "failed", Limit: 500},
		"/checkpoints?core_id=c&status=resolved":               &v1.ListDecisionsRequest{CoreId: "c", Status: "resolved"},
		"/events?core_id=c&execution_id=exec_1&cursor=%5B1,2]": &v1.ListCoreEventsRequest{CoreId: "c", ExecutionId: "exec_1", Cursor: "[1,2]"},
	} {
		c := gatewaytest.NewCoordinator(t)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		require.Equal(t, 200, g.Do("GET", corePaths+path, "").Code, path)
		require.True(t, proto.Equal(want, c.Calls()[0].Request.(proto.Message)), "%v", c.Calls()[0].Request)
	}
	require.Equal(t, 422, gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t))).Do("GET", corePaths+"/cores?limit=501", "").Code)
}

// A program is taken in each form, by itself or as a field, as JSON and as YAML: coordinators get the same.
func TestCores_sources(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	var made *v1.CreateCoreRequest
	var changed *v1.UpdateCoreRequest
	c.On("CreateCore", func(_ context.Context, request any) (any, error) {
		made = request.(*v1.CreateCoreRequest)
		return &v1.CreateCoreResponse{Core: &v1.Core{Slug: "greet"}}, nil
	})
	c.On("UpdateCore", func(_ context.Context, request any) (any, error) {
		changed = request.(*v1.UpdateCoreRequest)
		return &v1.UpdateCoreResponse{Core: &v1.Core{Slug: "greet"}}, nil
	})
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	yaml, found := compile.Manifest([]byte(gatewaytest.Greeting))
	require.NotNil(t, yaml, found)
	m, _ := compile.Program([]byte(gatewaytest.Greeting))
	raw, err := m.Encode()
	require.NoError(t, err)
	want := &structpb.Struct{}
	require.NoError(t, want.UnmarshalJSON(raw))
	manifest, err := compile.JSON(yaml)
	require.NoError(t, err)
	program := "schema_version: \"0.1\"\nname: Waits\nflows: [{name: main, body: [{kind: wait, id: w, duration: 1s}]}]\n"
	for body, of := range map[string][]string{
		gatewaytest.Greeting: {"application/json", "Greet"},
		string(yaml):         {"application/yaml", "greet"},
		string(manifest):     {"", "greet"},
		`{"name":"own","runtime_mode":"api","source":` + gatewaytest.Greeting + `}`: {"application/json", "own"},
		`{"name":"own","runtime_mode":"api","source":` + string(manifest) + `}`:     {"application/json", "own"},
		"name: own\nruntime_mode: api\nsource: " + gatewaytest.Greeting:             {"text/yaml; charset=utf-8", "own"},
		program: {"text/yaml", "Waits"},
	} {
		made = nil
		a := g.Do("POST", corePaths+"/cores", body, "Content-Type", of[0])
		require.Equal(t, 201, a.Code, "%s\n%s", body, a.Body)
		require.Equal(t, of[1], made.GetName())
		if body != program {
			require.True(t, proto.Equal(want, made.GetSource()), "%s: %v", body, made.GetSource())
		}
		changed = nil
		a = g.Do("PUT", corePaths+"/cores/greet", body, "Content-Type", of[0])
		require.Equal(t, 200, a.Code, "%s\n%s", body, a.Body)
		require.True(t, proto.Equal(made.GetSource(), changed.GetSource()))
		require.Equal(t, "greet", changed.GetCoreId())
		require.Equal(t, of[1] == "own", changed.GetName() == "own", "a program by itself renames no Core")
	}

	made = nil
	wrong := strings.Replace(gatewaytest.Greeting, "{{request.name}}", "{{request.}}", 1)
	a := g.Do("POST", corePaths+"/cores", wrong)
	require.Equal(t, 422, a.Code, a.Body)
	require.Equal(t, "source.nodes[1].config.template", a.Error.Details[0].Field)
	require.Contains(t, a.Error.Details[0].Message, "[BAD_FIELD]")
	notYet := strings.Replace(gatewaytest.Greeting, `"entry_api"`, `"entry_webhook"`, 1)
	notYet = strings.Replace(notYet, "out_request", "out_event", 1)
	require.Contains(t, g.Do("POST", corePaths+"/cores", notYet).Body, "NOT_SUPPORTED")
	for _, body := range []string{"a: [", "a: &a [1]\nb: *a\n", "a: 1\n---\nb: 2\n", "core: 3\n"} {
		a := g.Do("POST", corePaths+"/cores", body, "Content-Type", "application/yaml")
		require.Equal(t, 422, a.Code, a.Body)
	}
	require.Nil(t, made)
}

func TestCores_parseBundle(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	const program = `{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[{"kind":"wait","id":"w","duration":"1s"}]}]}`
	a := g.Do("POST", corePaths+"/cores/parse-bundle", program)
	require.Equal(t, 200, a.Code, a.Body)
	require.Contains(t, string(a.Data), `"flows":["main"]`)
	require.Contains(t, string(a.Data), `"diagnostics":[]`)

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "p.json")
	require.NoError(t, err)
	_, err = part.Write([]byte(program))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, 200, g.Do("POST", corePaths+"/cores/parse-bundle", form.String(), "Content-Type", w.FormDataContentType()).Code)

	yaml, _ := compile.Manifest([]byte(gatewaytest.Greeting))
	a = g.Do("POST", corePaths+"/cores/parse-bundle", string(yaml), "Content-Type", "application/yaml")
	require.Equal(t, 200, a.Code, a.Body)
	require.Contains(t, string(a.Data), `"flows":["greet"]`)

	for body, says := range map[string]string{
		"SCIR\x00":    "its binary form was never published",
		"nonsense":    "File is neither a valid .scaicore-ir bundle nor JSON",
		`{"flows":5}`: "Failed to parse bundle: ",
		`{"schema_version":"0.1","flows":[` + `{"name":"m","body":[{"kind":"if","id":"i","cases":[{"when":"1 +","body":[]}]}]}]}`: "block \\\"i\\\"",
	} {
		a := g.Do("POST", corePaths+"/cores/parse-bundle", body)
		require.Equal(t, 400, a.Code, a.Body)
		require.Equal(t, "VALIDATION_ERROR", a.Error.Code)
		require.Contains(t, a.Body, says)
	}
}

// The published limit is that of the file, in a form and by itself.
func TestCores_aBundleMayHaveTenMegabytes(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	const program = `{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[{"kind":"wait","id":"w","duration":"1s"}]}]}`
	file := program + strings.Repeat(" ", 10<<20-len(program))
	a := g.Do("POST", corePaths+"/cores/parse-bundle", file)
	require.Equal(t, 400, a.Code, "a program has another limit")
	require.Contains(t, a.Error.Message, "Failed to parse bundle")
	for _, form := range []bool{true, false} {
		body, kind := file+" ", "application/json"
		if form {
			var b bytes.Buffer
			w := multipart.NewWriter(&b)
			part, err := w.CreateFormFile("file", "p.json")
			require.NoError(t, err)
			_, err = part.Write([]byte(body))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			body, kind = b.String(), w.FormDataContentType()
		}
		a := g.Do("POST", corePaths+"/cores/parse-bundle", body, "Content-Type", kind)
		require.Equal(t, 413, a.Code)
		require.Equal(t, "Bundle exceeds 10 MB limit", a.Error.Message)
	}
}

// The values of environments in a program are shown to those who may change it alone, as those of jobs are.
func TestCores_environmentsInProgramsAreHidden(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	var source structpb.Struct
	require.NoError(t, source.UnmarshalJSON([]byte(`{"flows":[{"body":[{"spec":{"command_config":{"argv":["env"],"environment":{"HF_TOKEN":"canary","N":{"deep":"canary"}}}}}]}]}`)))
	c.On("GetCore", func(context.Context, any) (any, error) {
		return &v1.GetCoreResponse{Core: &v1.Core{Id: "core_1", Source: &source}}, nil
	})
	config := gatewaytest.Config(c)
	for _, p := range []string{"scaicore:view", "scaicore:admin"} {
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: p, Tenant: "acme", User: "ann", Permissions: []string{p}})
	}
	g := gatewaytest.NewGate(t, config)
	seen := g.Do("GET", corePaths+"/cores/core_1", "", "Authorization", "Bearer scaicore:view")
	require.Equal(t, 200, seen.Code, seen.Body)
	require.NotContains(t, seen.Body, "canary")
	require.Contains(t, seen.Body, `"HF_TOKEN":"***"`)
	require.Contains(t, g.Do("GET", corePaths+"/cores/core_1", "", "Authorization", "Bearer scaicore:admin").Body, `"HF_TOKEN":"canary"`)
}
