package tokenexchange_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/oidc"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/tokenexchange"
)

const exchangeSecret = "secret-of-the-client-at-the-server"

// exchangeServer mints a new token for each request. The token contains the number and the audience of the request.
func exchangeServer(t *testing.T) (url string, calls *atomic.Int32, answer *atomic.Pointer[http.HandlerFunc]) {
	calls, answer = &atomic.Int32{}, &atomic.Pointer[http.HandlerFunc]{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if h := answer.Load(); h != nil {
			(*h)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"minted-%d-for-%s","issued_token_type":%q,"token_type":"Bearer","expires_in":60}`,
			n, r.PostFormValue("audience"), tokenexchange.TypeAccessToken)
	}))
	t.Cleanup(server.Close)
	return server.URL, calls, answer
}

func exchanging(config *gateway.Config, url string) {
	config.TokenExchange = &tokenexchange.Config{
		URL: url, ClientID: "mind", ClientSecret: exchangeSecret, Timeout: 30 * time.Second,
		Drive: tokenexchange.Target{Audience: "drive"}, Atlas: tokenexchange.Target{Audience: "atlas"},
	}
}

func TestTokenExchange_onTheCallsThatNeedIt(t *testing.T) {
	issuer, sign := gatewaytest.Issuer(t)
	exchange, calls, _ := exchangeServer(t)
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJobs", func(context.Context, any) (any, error) {
		return &v1.SubmitJobsResponse{Results: []*v1.SubmitJobResult{{Job: &v1.SubmitJobResponse{JobId: "job_1"}}}}, nil
	})
	config := gatewaytest.Config(c)
	config.OIDC = &oidc.Config{Issuer: issuer, Audience: "mind", Client: gatewaytest.PatientClient, KeysURL: issuer}
	exchanging(&config, exchange)
	g := gatewaytest.NewGate(t, config)
	bearer := "Bearer " + sign(map[string]any{"role": "tenant_admin"})
	for _, tc := range []struct {
		method, path, body string
		minted             bool
	}{
		{"POST", "/jobs", `{"name":"x"}`, true},
		{"POST", "/jobs/batch", `{"jobs":[{"name":"x"}]}`, true},
		{"POST", "/jobs/job_1/resume", "", true},
		{"POST", "/jobs/job_1/retry", "", true},
		{"POST", "/evaluations", `{"model_uri":"scaidrive://acme/m/","benchmarks":[{"name":"mmlu"}]}`, true},
		{"GET", "/evaluations", "", false},
		{"GET", "/jobs", "", false},
		{"GET", "/jobs/job_1", "", false},
		{"POST", "/jobs/job_1/cancel", "", false},
		{"POST", "/jobs/job_1/pause", "", false},
		{"GET", "/queue", "", false},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			before := calls.Load()
			a := g.Do(tc.method, rest.Prefix+tc.path, tc.body, "Authorization", bearer)
			require.Less(t, a.Code, 300, a.Body)
			all := c.Calls()
			md := all[len(all)-1].MD
			if !tc.minted {
				require.Equal(t, before, calls.Load())
				require.Empty(t, md[status.KeyDriveToken])
				require.Empty(t, md[status.KeyAtlasToken])
				return
			}
			require.Equal(t, before+2, calls.Load(), "one for each service, and for this request")
			require.Len(t, md[status.KeyDriveToken], 1)
			require.Len(t, md[status.KeyAtlasToken], 1)
			require.Regexp(t, `^minted-\d+-for-drive$`, md[status.KeyDriveToken][0])
			require.Regexp(t, `^minted-\d+-for-atlas$`, md[status.KeyAtlasToken][0])
			require.NotContains(t, fmt.Sprint(md), strings.TrimPrefix(bearer, "Bearer "), "the caller's own token goes no further")
		})
	}
}

// No token is minted for a request that fails a check, and no coordinator is called if no token was minted.
func TestTokenExchange_comesAfterTheChecks(t *testing.T) {
	issuer, sign := gatewaytest.Issuer(t)
	exchange, calls, _ := exchangeServer(t)
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.OIDC = &oidc.Config{Issuer: issuer, Audience: "mind", Client: gatewaytest.PatientClient, KeysURL: issuer}
	exchanging(&config, exchange)
	g := gatewaytest.NewGate(t, config)
	admin := "Bearer " + sign(map[string]any{"role": "tenant_admin"})
	for name, tc := range map[string]struct {
		want          int
		body          string
		authorization string
		headers       []string
	}{
		"no token":       {401, `{"name":"x"}`, "Bearer nobody", nil},
		"no permission":  {403, `{"name":"x"}`, "Bearer " + sign(map[string]any{"role": "tenant_viewer"}), nil},
		"a bad body":     {422, `{"name":7}`, admin, nil},
		"a bad key":      {422, `{"name":"x"}`, admin, []string{"Idempotency-Key", "auto:mine"}},
		"a bad timeout":  {422, `{"name":"x"}`, admin, []string{"X-Request-Timeout", "-1"}},
		"an API token":   {500, `{"name":"x"}`, "Bearer " + gatewaytest.TokenAll, nil},
		"a broken token": {401, `{"name":"x"}`, admin + "x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.Do("POST", rest.Prefix+"/jobs", tc.body, append([]string{"Authorization", tc.authorization}, tc.headers...)...)
			require.Equal(t, tc.want, a.Code, a.Body)
			if tc.want == 500 {
				require.Equal(t, "TOKEN_EXCHANGE_FAILED", a.Error.Code)
				require.Contains(t, a.Error.Message, "an API token cannot be exchanged")
			}
			require.Zero(t, calls.Load())
			require.Empty(t, c.Calls())
		})
	}
	require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs", "").Code, "an API token is as good as ever where nothing is exchanged")
}

func TestTokenExchange_issuedOnly(t *testing.T) {
	issuer, _ := gatewaytest.Issuer(t)
	exchange, calls, _ := exchangeServer(t)
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.OIDC = &oidc.Config{Issuer: issuer, Audience: "mind", Client: gatewaytest.PatientClient, KeysURL: issuer}
	exchanging(&config, exchange)
	config.ExchangeIssuedOnly = true
	g := gatewaytest.NewGate(t, config)
	require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`).Code)
	require.Zero(t, calls.Load())
	require.Empty(t, c.Calls()[0].MD[status.KeyDriveToken])
}

// Jobs that one caller submits at the same time share a call, but never with the tokens of another request.
func TestTokenExchange_eachJobHasItsOwn(t *testing.T) {
	issuer, sign := gatewaytest.Issuer(t)
	exchange, _, _ := exchangeServer(t)
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.OIDC = &oidc.Config{Issuer: issuer, Audience: "mind", Client: gatewaytest.PatientClient, KeysURL: issuer}
	exchanging(&config, exchange)
	g := gatewaytest.NewGate(t, config)
	bearer := "Bearer " + sign(map[string]any{"role": "tenant_admin"})
	const jobs = 32
	var all sync.WaitGroup
	for range jobs {
		all.Go(func() {
			require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Authorization", bearer).Code)
		})
	}
	all.Wait()
	tokens := map[string]bool{}
	for _, call := range c.Calls() {
		require.Equal(t, "SubmitJob", call.Method)
		tokens[call.MD[status.KeyDriveToken][0]] = true
		tokens[call.MD[status.KeyAtlasToken][0]] = true
	}
	require.Len(t, tokens, 2*jobs)
}

// Answers, logs and metrics contain no token and no secret, whatever the result of the exchange.
func TestTokenExchange_nothingLeaks(t *testing.T) {
	issuer, sign := gatewaytest.Issuer(t)
	exchange, _, answer := exchangeServer(t)
	c := gatewaytest.NewCoordinator(t)
	var logs gatewaytest.Log
	config := gatewaytest.Config(c)
	config.Logger = slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config.OIDC = &oidc.Config{Issuer: issuer, Audience: "mind", Client: gatewaytest.PatientClient, KeysURL: issuer}
	exchanging(&config, exchange)
	g := gatewaytest.NewGate(t, config)
	token := sign(map[string]any{"role": "tenant_admin"})
	shown := &strings.Builder{}
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		code    int
		outcome string
	}{
		"it mints": {nil, 201, "ok"},
		"it repeats what it was sent": {func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": "invalid_request", "error_description": fmt.Sprint(r.PostForm, r.Header)})
		}, 500, "refused"},
		"it has a fault": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			_, _ = io.Copy(w, r.Body)
		}, 500, "unreachable"},
		"it answers what is no token": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, r.Body)
		}, 500, "bad_answer"},
		"it gives the caller's own back": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"issued_token_type":%q,"token_type":"Bearer"}`, r.PostFormValue("subject_token"), tokenexchange.TypeAccessToken)
		}, 500, "bad_answer"},
		"it hangs up": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}, 500, "unreachable"},
		"the coordinator fails with what it was sent": {nil, 500, "ok"},
	} {
		answer.Store(nil)
		if tc.answer != nil {
			answer.Store(&tc.answer)
		}
		c.On("SubmitJob", func(context.Context, any) (any, error) {
			if tc.outcome == "ok" && tc.code == 500 {
				return nil, fmt.Errorf("storage is full")
			}
			return gatewaytest.Replies["SubmitJob"](), nil
		})
		a := g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Authorization", "Bearer "+token)
		require.Equal(t, tc.code, a.Code, "%s: %s", name, a.Body)
		if tc.outcome != "ok" {
			require.Equal(t, "TOKEN_EXCHANGE_FAILED", a.Error.Code, name)
			require.Contains(t, logs.String(), a.Meta.RequestID, name)
		}
		fmt.Fprintln(shown, a.Body, a.Header)
	}
	metrics := g.Do("GET", "/metrics", "").Body
	for _, outcome := range []string{`{outcome="ok"} 2`, `{outcome="refused"} 1`, `{outcome="unreachable"} 2`, `{outcome="bad_answer"} 2`} {
		require.Contains(t, metrics, "mind_gateway_token_exchanges_total"+outcome)
	}
	for where, text := range map[string]string{"answers": shown.String(), "logs": logs.String(), "metrics": metrics} {
		parts := strings.Split(token, ".")
		for _, s := range append(parts[1:], token, "minted-", exchangeSecret, base64.StdEncoding.EncodeToString([]byte("mind:"+exchangeSecret))) {
			require.NotContains(t, text, s, where)
		}
	}
}

// A real OAuth server exchanges the token of a user for tokens of ScaiDrive and ScaiAtlas, each for one of them only.
func TestTokenExchange_withARealServer(t *testing.T) {
	issuer, sign := gatewaytest.Issuer(t)
	dex := gatewaytest.StartDex(t, issuer, porttest.Claim(t))
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.OIDC = &oidc.Config{Issuer: issuer, Audience: "mind", Client: gatewaytest.PatientClient}
	config.TokenExchange = &tokenexchange.Config{
		URL: dex + "/token", ClientID: "mind-gateway", ClientSecret: exchangeSecret, SubjectType: tokenexchange.TypeIDToken, Timeout: time.Minute,
		Parameters: map[string]string{"connector_id": "sign-in"},
		Drive:      tokenexchange.Target{Scope: "openid audience:server:client_id:scaidrive"},
		Atlas:      tokenexchange.Target{Scope: "openid audience:server:client_id:scaiatlas"},
	}
	g := gatewaytest.NewGate(t, config)
	person := map[string]any{"role": "tenant_admin", "name": "Ann", "email": "ann@example.com", "email_verified": true, "iat": time.Now().Unix()}
	token := sign(person)
	a := g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Authorization", "Bearer "+token)
	require.Equal(t, 201, a.Code, a.Body)
	md := c.Calls()[0].MD
	for key, audience := range map[string]string{status.KeyDriveToken: "scaidrive", status.KeyAtlasToken: "scaiatlas"} {
		require.Len(t, md[key], 1)
		minted := md[key][0]
		require.NotEqual(t, token, minted)
		verify := func(audience string) error {
			verifier, err := oidc.New(oidc.Config{Issuer: dex, Audience: audience, Client: gatewaytest.PatientClient})
			require.NoError(t, err)
			_, err = verifier.Verify(t.Context(), minted)
			return err
		}
		require.NoError(t, verify(audience))
		for _, other := range slices.DeleteFunc([]string{"scaidrive", "scaiatlas", "mind"}, func(s string) bool { return s == audience }) {
			require.ErrorIs(t, verify(other), oidc.ErrInvalid, "%s is not for %s", key, other)
		}
	}

	// It refuses tokens that it does not trust, and a gateway with a wrong secret.
	config.TokenExchange.Parameters = map[string]string{"connector_id": "nowhere"}
	config.Registry = gatewaytest.Config().Registry
	a = gatewaytest.NewGate(t, config).Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Authorization", "Bearer "+token)
	require.Equal(t, 500, a.Code)
	require.Contains(t, a.Error.Message, "refused your token")
	config.TokenExchange.Parameters = map[string]string{"connector_id": "sign-in"}
	config.TokenExchange.ClientSecret = "guessed"
	config.Registry = gatewaytest.Config().Registry
	a = gatewaytest.NewGate(t, config).Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Authorization", "Bearer "+token)
	require.Equal(t, 500, a.Code)
	require.Equal(t, "TOKEN_EXCHANGE_FAILED", a.Error.Code)
	require.Len(t, c.Calls(), 1, "nothing is called without tokens")
}
