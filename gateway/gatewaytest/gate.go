package gatewaytest

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/flows"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Tokens of the tests.
const (
	TokenAll    = "token-all"
	TokenViewer = "token-view"
	TokenNone   = "token-none"
)

// Config returns the configuration of a gateway before some coordinators, none of which has to be there.
func Config(coordinators ...*Coordinator) gateway.Config {
	config := gateway.Config{
		HTTPAddr: "127.0.0.1:0", APISecret: "secret",
		Tokens: []gateway.StaticToken{
			{Token: TokenAll, Tenant: "acme", User: "ann", Permissions: auth.AllPermissions},
			{Token: TokenViewer, Tenant: "acme", User: "vic", Permissions: []string{auth.PermissionView}},
			{Token: TokenNone, Tenant: "acme", User: "nat"},
		},
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		Registry: prometheus.NewRegistry(),
	}
	byAddr := map[string]*Coordinator{}
	for i, c := range coordinators {
		addr := string(rune('a'+i)) + ":1"
		byAddr[addr] = c
		config.Coordinators = append(config.Coordinators, addr)
	}
	if len(coordinators) == 0 {
		config.Coordinators = []string{"nobody:1"}
	}
	config.DialOptions = []grpc.DialOption{dialerTo(byAddr)}
	return config
}

// Gate is the handler of a gateway, without a socket.
type Gate struct {
	T       testing.TB
	Handler http.Handler
}

// NewGate returns a gateway that ends with the test.
func NewGate(t testing.TB, config gateway.Config) *Gate {
	handler, release, err := gateway.Handler(config)
	require.NoError(t, err)
	t.Cleanup(release)
	return GateOf(t, handler)
}

// GateOf returns a gate of a handler.
func GateOf(t testing.TB, handler http.Handler) *Gate { return &Gate{T: t, Handler: handler} }

// Answer is a response that was read completely.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
	Status string          `json:"status"`
	Data   json.RawMessage `json:"data"`
	Error  struct {
		Code       string       `json:"code"`
		Message    string       `json:"message"`
		RetryAfter int          `json:"retry_after"`
		Details    []wire.Fault `json:"details"`
	} `json:"error"`
	Meta struct {
		RequestID string `json:"request_id"`
	} `json:"meta"`
}

// Do sends a request with all permissions. Headers come in pairs, and may replace the token; one with an empty value is removed.
func (g *Gate) Do(method, path, body string, headers ...string) *Answer {
	g.T.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+TokenAll)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	g.Handler.ServeHTTP(w, r)
	a := &Answer{Code: w.Code, Header: w.Header(), Body: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if flows.Has(r.URL.Path) {
			a.readBare(g.T)
		} else {
			require.NoError(g.T, json.Unmarshal([]byte(a.Body), a), a.Body)
		}
	}
	return a
}

// readBare reads an answer without an envelope, so that tests of all routes find in it what they look for.
func (a *Answer) readBare(t testing.TB) {
	a.Meta.RequestID = a.Header.Get(rest.HeaderRequestID)
	if a.Code < 400 {
		a.Status, a.Data = "ok", json.RawMessage(a.Body)
		require.True(t, json.Valid(a.Data), a.Body)
		return
	}
	var fault struct {
		Detail struct {
			Error, Message string
			Details        []wire.Fault
			RetryAfter     int `json:"retry_after"`
		}
	}
	read := json.NewDecoder(strings.NewReader(a.Body))
	require.NoError(t, read.Decode(&fault), a.Body)
	require.Equal(t, strings.ToLower(fault.Detail.Error), fault.Detail.Error)
	a.Status, a.Error.Code, a.Error.Message = "error", strings.ToUpper(fault.Detail.Error), fault.Detail.Message
	a.Error.Details, a.Error.RetryAfter = fault.Detail.Details, fault.Detail.RetryAfter
}

// Data returns the data of an answer, which is an object.
func (g *Gate) Data(a *Answer) map[string]any {
	g.T.Helper()
	var data map[string]any
	require.NoError(g.T, json.Unmarshal(a.Data, &data), a.Body)
	return data
}
