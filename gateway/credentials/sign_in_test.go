package credentials_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/oidc"
)

// signInServer is an OpenID Connect issuer at which users sign in: it checks what a gateway sends as a real one does.
type signInServer struct {
	*httptest.Server
	t      *testing.T
	key    *rsa.PrivateKey
	secret string // of the client; empty: it is public

	mu    sync.Mutex
	codes map[string]url.Values // by code, the request that it answers
	asked int                   // of the token endpoint
	// change changes the claims of the ID token, and answer replaces the answer of the token endpoint.
	change func(map[string]any)
	answer http.HandlerFunc
}

func newSignInServer(t *testing.T) *signInServer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s := &signInServer{t: t, key: key, codes: map[string]url.Values{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]string{
				"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/authorize?theme=dark", "token_endpoint": s.URL + "/token",
			})
		case "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
		case "/token":
			s.token(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// consent lets a user sign in for a request, and returns the code that the browser is sent back with.
func (s *signInServer) consent(to string) (code, state string) {
	u, err := url.Parse(to)
	require.NoError(s.t, err)
	require.True(s.t, strings.HasPrefix(to, s.URL+"/authorize?"), to)
	q := u.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "console", "code_challenge_method": "S256", "scope": "openid", "theme": "dark",
	} {
		require.Equal(s.t, want, q.Get(name), name)
	}
	require.GreaterOrEqual(s.t, len(q.Get("state")), 43)
	require.GreaterOrEqual(s.t, len(q.Get("nonce")), 43)
	s.mu.Lock()
	defer s.mu.Unlock()
	code = fmt.Sprint("code-", len(s.codes))
	s.codes[code] = q
	return code, q.Get("state")
}

// questions returns how often the token endpoint was asked.
func (s *signInServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// behave sets how the issuer misbehaves; nil: it does not.
func (s *signInServer) behave(change func(map[string]any), answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change, s.answer = change, answer
}

func (s *signInServer) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.answer != nil {
		s.answer(w, r)
		return
	}
	_ = r.ParseForm()
	request, ok := s.codes[r.PostForm.Get("code")]
	challenge := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	_, secret, _ := r.BasicAuth()
	if !ok || r.PostForm.Get("grant_type") != "authorization_code" || r.PostForm.Get("redirect_uri") != request.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != request.Get("code_challenge") || secret != s.secret || r.PostForm.Get("client_id") != "console" {
		http.Error(w, `{"error":"invalid_grant","error_description":"<script>"}`, http.StatusBadRequest)
		return
	}
	delete(s.codes, r.PostForm.Get("code"))
	now := time.Now()
	claims := map[string]any{
		"iss": s.URL, "aud": "console", "sub": "usr_1", "tenant_id": "tnt_a", "role": "tenant_viewer", "groups": []string{"g1"},
		"nonce": request.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	if s.change != nil {
		s.change(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: s.key, KeyID: "k"}}, nil)
	require.NoError(s.t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(s.t, err)
	_ = json.NewEncoder(w).Encode(map[string]string{"id_token": token, "access_token": "unused", "token_type": "Bearer"})
}

func (s *signInServer) configure(config *gateway.Config) {
	config.OIDC = &oidc.Config{Issuer: s.URL, Audience: "mind", Client: &http.Client{Timeout: time.Minute}}
	config.Login = &login.Config{ClientID: "console"}
	config.Registry = nil // Each gateway of a test gets its own.
	if s.secret != "" {
		config.Login.SecretFile = filepath.Join(s.t.TempDir(), "secret")
		require.NoError(s.t, os.WriteFile(config.Login.SecretFile, []byte(s.secret+"\n"), 0o600))
	}
}

// cookies are the cookies of an answer, as a browser sends them.
func cookies(a *gatewaytest.Answer) map[string]string {
	kept := map[string]string{}
	for _, line := range a.Header["Set-Cookie"] {
		pair, _, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		kept[name] = value
	}
	return kept
}

// fromAfar are the headers of a browser that comes back from the issuer.
var fromAfar = []string{"Sec-Fetch-Site", "", "Sec-Fetch-Site", "cross-site"}

func TestSignIn_atAnIssuer(t *testing.T) {
	for name, secret := range map[string]string{"a public client": "", "a client with a secret": "s3cret"} {
		t.Run(name, func(t *testing.T) {
			c := gatewaytest.NewCoordinator(t)
			keepSessions(c)
			issuer := newSignInServer(t)
			issuer.secret = secret
			config := gatewaytest.Config(c)
			issuer.configure(&config)
			g, other := gatewaytest.NewGate(t, config), gatewaytest.NewGate(t, config)
			host, _ := url.Parse(issuer.URL)
			require.JSONEq(t, `{"token":true,"oidc":{"name":"`+host.Host+`","login_path":"/v1/session/login"}}`, string(page(g, "GET", "/v1/session/methods", "").Data))

			a := page(g, "GET", "/v1/session/login?next=%2Fconsole%2Fjobs%3Fuser%3Dme", "", fromAfar...)
			require.Equal(t, 303, a.Code, a.Body)
			require.Regexp(t, `^mind-login=[A-Za-z0-9_-]+; Path=/; Max-Age=600; HttpOnly; SameSite=Lax$`, a.Header.Get("Set-Cookie"))
			to := a.Header.Get("Location")
			code, state := issuer.consent(to)
			require.Equal(t, "http://localhost/v1/session/callback", issuer.codes[code].Get("redirect_uri"))

			// Any gateway takes the answer.
			pending := "mind-login=" + cookies(a)["mind-login"]
			back := page(other, "GET", "/v1/session/callback?state="+state+"&code="+code+"&iss=x", pending, fromAfar...)
			require.Equal(t, 303, back.Code, back.Body)
			require.Equal(t, "/console/jobs?user=me", back.Header.Get("Location"))
			require.Equal(t, "no-referrer", back.Header.Get("Referrer-Policy"))
			require.Equal(t, "no-store", back.Header.Get("Cache-Control"))
			kept := cookies(back)
			require.Empty(t, kept["mind-login"], "it is used")
			cookie := "mind=" + kept["mind"]
			me := page(g, "GET", "/v1/me", cookie)
			require.JSONEq(t, `{"tenant_id":"tnt_a","user_id":"usr_1","permissions":["scaimind:view","scaicore:view"]}`, string(me.Data))

			again := page(g, "GET", "/v1/session/callback?state="+state+"&code="+code, pending, fromAfar...)
			require.Contains(t, again.Header.Get("Location"), "/console/?error=", "a code is good once")
			require.Empty(t, cookies(again)["mind"])
		})
	}
}

func TestSignIn_behindAProxyWithHTTPS(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	issuer := newSignInServer(t)
	config := gatewaytest.Config(c)
	config.TrustedProxies = []string{"10.0.0.1"}
	issuer.configure(&config)
	g := gatewaytest.NewGate(t, config)
	proxied := []string{"Peer", "10.0.0.1:1", "Host", "mind.example", "X-Forwarded-Proto", "https"}
	a := page(g, "GET", "/v1/session/login", "", proxied...)
	require.Regexp(t, `^__Host-mind-login=[^;]+; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax$`, a.Header.Get("Set-Cookie"))
	code, state := issuer.consent(a.Header.Get("Location"))
	require.Equal(t, "https://mind.example/v1/session/callback", issuer.codes[code].Get("redirect_uri"))
	back := page(g, "GET", "/v1/session/callback?state="+state+"&code="+code, "__Host-mind-login="+cookies(a)["__Host-mind-login"], proxied...)
	require.Equal(t, login.Home, back.Header.Get("Location"))
	require.NotEmpty(t, cookies(back)["__Host-mind"])
	for _, path := range []string{"/v1/session/login", "/v1/session/callback"} {
		require.Equal(t, 409, page(g, "GET", path, "", "Peer", "10.0.0.7:1", "Host", "mind.example").Code, "others could read the cookie")
	}
}

func TestSignIn_notConfigured(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	for _, path := range []string{"/v1/session/login", "/v1/session/callback"} {
		a := page(g, "GET", path, "")
		require.Equal(t, 404, a.Code)
		require.Contains(t, a.Error.Message, "oidc_client_id")
	}
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.Login = &login.Config{ClientID: "console"}
	require.ErrorContains(t, config.Validate(), "without oidc_issuer")
}

// An answer that does not fit makes no session, and the browser is told a fixed sentence.
func TestSignIn_refuses(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	issuer := newSignInServer(t)
	config := gatewaytest.Config(c)
	issuer.configure(&config)
	var log gatewaytest.Log
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	claim := func(name string, value any) func(map[string]any) { return func(c map[string]any) { c[name] = value } }
	for name, tc := range map[string]struct {
		query  func(code, state string) string
		cookie string // in the place of the one that was set
		change func(map[string]any)
		answer http.HandlerFunc
		why    error
	}{
		"no cookie":             {cookie: "a=b", why: login.ErrExpired},
		"a cookie that is none": {cookie: "mind-login=e30", why: login.ErrExpired},
		"another state":         {query: func(code, _ string) string { return "state=x&code=" + code }, why: login.ErrExpired},
		"no state":              {query: func(code, _ string) string { return "code=" + code }, why: login.ErrExpired},
		"two states":            {query: func(code, state string) string { return "state=" + state + "&state=x&code=" + code }, why: login.ErrExpired},
		"the user declined": {query: func(_, state string) string {
			return "error=access_denied&error_description=%3Cscript%3E&state=" + state
		}, why: login.ErrDenied},
		"an error for another":     {query: func(_, _ string) string { return "error=access_denied&state=x" }, why: login.ErrExpired},
		"no code":                  {query: func(_, state string) string { return "state=" + state }, why: login.ErrRefused},
		"a guessed code":           {query: func(_, state string) string { return "code=guess&state=" + state }, why: login.ErrRefused},
		"another nonce":            {change: claim("nonce", "x"), why: login.ErrRefused},
		"no nonce":                 {change: claim("nonce", nil), why: login.ErrRefused},
		"a token for the API":      {change: claim("aud", "mind"), why: login.ErrRefused},
		"a token of another":       {change: claim("iss", "https://evil.example"), why: login.ErrRefused},
		"a token that has expired": {change: claim("exp", time.Now().Add(-time.Hour).Unix()), why: login.ErrRefused},
		"a user without a tenant":  {change: claim("tenant_id", ""), why: login.ErrDenied},
		"a redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, why: login.ErrRefused},
		"no JSON":             {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<script>")) }, why: login.ErrRefused},
		"no ID token":         {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, why: login.ErrRefused},
		"a broken connection": {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, why: login.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.NewGate(t, config)
			issuer.behave(tc.change, tc.answer)
			a := page(g, "GET", "/v1/session/login", "", fromAfar...)
			code, state := issuer.consent(a.Header.Get("Location"))
			query, cookie := "state="+state+"&code="+code, "mind-login="+cookies(a)["mind-login"]
			if tc.query != nil {
				query = tc.query(code, state)
			}
			if tc.cookie != "" {
				cookie = tc.cookie
			}
			before := len(c.Calls())
			back := page(g, "GET", "/v1/session/callback?"+query, cookie, fromAfar...)
			require.Equal(t, 303, back.Code, back.Body)
			require.Equal(t, login.Failed(tc.why), back.Header.Get("Location"))
			require.Empty(t, cookies(back)["mind"])
			require.Len(t, c.Calls(), before, "no session is made")
			for _, inside := range []string{code, state} {
				require.NotContains(t, log.String(), inside)
			}
		})
	}
	require.Contains(t, log.String(), "mind_sign_in_failed")
	require.NotContains(t, log.String(), `<script>`)
}

// Answers to nothing end no sign-in that has begun in the browser, and take nothing of the bound on codes: only an exchange does. One
// too many is told as such, and can be tried again.
func TestSignIn_answersToNothing(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	issuer := newSignInServer(t)
	config := gatewaytest.Config(c)
	issuer.configure(&config)
	var log gatewaytest.Log
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	g := gatewaytest.NewGate(t, config)
	begun := page(g, "GET", "/v1/session/login", "", fromAfar...)
	code, state := issuer.consent(begun.Header.Get("Location"))
	pending := "mind-login=" + cookies(begun)["mind-login"]
	back := func(query string) *gatewaytest.Answer {
		return page(g, "GET", "/v1/session/callback?"+query, pending, fromAfar...)
	}
	for i := range 100 {
		a := back(fmt.Sprint("state=x&code=guess", i))
		require.Equal(t, "/console/?error=expired", a.Header.Get("Location"))
		require.Empty(t, a.Header["Set-Cookie"], "the browser keeps its sign-in")
	}
	require.Zero(t, issuer.questions())
	lines := func() int { return strings.Count(log.String(), "mind_sign_in_failed") }
	require.Equal(t, 1, lines(), "one line for all of them")

	last := &gatewaytest.Answer{}
	for i := range 50 {
		if last = back(fmt.Sprint("state=", state, "&code=guess", i)); last.Header.Get("Location") != "/console/?error=refused" {
			break
		}
	}
	require.Equal(t, "/console/?error=throttled", last.Header.Get("Location"))
	require.Empty(t, last.Header["Set-Cookie"], "the code was not used")
	require.Equal(t, 3, lines())
	done := page(g, "GET", "/v1/session/callback?state="+state+"&code="+code, pending, append(fromAfar, "Peer", "127.0.0.2:4711")...)
	require.Equal(t, login.Home, done.Header.Get("Location"))
	require.NotEmpty(t, cookies(done)["mind"])
	require.Contains(t, done.Header["Set-Cookie"], "mind-login=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
}

// An issuer that is down is asked once in a while, whatever browsers come, and guessed codes are few requests to it.
func TestSignIn_aFloodIsFewRequests(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	issuer := newSignInServer(t)
	config := gatewaytest.Config(c)
	issuer.configure(&config)
	g := gatewaytest.NewGate(t, config)
	a := page(g, "GET", "/v1/session/login", "", fromAfar...)
	_, state := issuer.consent(a.Header.Get("Location"))
	for i := range 300 {
		page(g, "GET", fmt.Sprint("/v1/session/callback?state=", state, "&code=guess", i), "mind-login="+cookies(a)["mind-login"], fromAfar...)
	}
	require.Less(t, issuer.questions(), 100)

	down := gatewaytest.NewGate(t, config)
	issuer.Close()
	for range 3 {
		a := page(down, "GET", "/v1/session/login", "", fromAfar...)
		require.Equal(t, "/console/?error=unreachable", a.Header.Get("Location"))
		require.Empty(t, cookies(a))
	}
}

// A real OAuth server takes what a gateway sends: the code is exchanged, and its ID token verified. The server knows no tenants, so
// the user gets no session.
func TestSignIn_withARealServer(t *testing.T) {
	at, _ := gatewaytest.Issuer(t)
	dex := gatewaytest.StartDex(t, at, porttest.Claim(t))
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	issuer := &signInServer{Server: &httptest.Server{URL: dex}, t: t, secret: "s3cret"}
	config := gatewaytest.Config(c)
	issuer.configure(&config)
	var log gatewaytest.Log
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	g := gatewaytest.NewGate(t, config)
	begun := page(g, "GET", "/v1/session/login", "", fromAfar...)
	require.Equal(t, 303, begun.Code, begun.Body)

	// The browser signs in, up to the address that leads back.
	var back *url.URL
	browser := &http.Client{Timeout: time.Minute, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if next.URL.Path == "/v1/session/callback" {
			back = next.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := browser.Get(begun.Header.Get("Location") + "&connector_id=mock")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NotNil(t, back, resp.Status)

	a := page(g, "GET", back.RequestURI(), "mind-login="+cookies(begun)["mind-login"], fromAfar...)
	require.Equal(t, "/console/?error=denied", a.Header.Get("Location"), log.String())
	require.Contains(t, log.String(), "the user belongs to no tenant", "all before that was good")
	require.Empty(t, cookies(a)["mind"])
}
