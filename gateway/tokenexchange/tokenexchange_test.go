package tokenexchange

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	subject = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1c3JfMSJ9.c2lnbmF0dXJlLW9mLXRoZS1zdWJqZWN0"
	secret  = "s3cr:t/+ of ours"
)

// strict is a token endpoint that accepts only requests according to RFC 8693 and RFC 6749.
type strict struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []url.Values
	calls atomic.Int32
	// answer replaces its answer to a valid request.
	answer func(w http.ResponseWriter, form url.Values)
}

func newStrict(t *testing.T) *strict {
	s := &strict{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *strict) serve(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	if fault := s.fault(r); fault != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_request","error_description":%q}`, fault)
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, r.PostForm)
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(w, r.PostForm)
		return
	}
	say(w, 200, fmt.Sprintf(`{"access_token":"minted-for-%s","issued_token_type":%q,"token_type":"Bearer","expires_in":60}`, r.PostForm.Get("audience"), TypeAccessToken))
}

func (s *strict) fault(r *http.Request) string {
	if r.Method != http.MethodPost || r.URL.RawQuery != "" {
		return "not a bare POST"
	}
	if r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return "not a form"
	}
	if err := r.ParseForm(); err != nil {
		return err.Error()
	}
	id, password, ok := r.BasicAuth()
	if !ok {
		id, password = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	} else {
		if r.PostForm.Has("client_secret") {
			return "two ways to authenticate"
		}
		id, _ = url.QueryUnescape(id)
		password, _ = url.QueryUnescape(password)
	}
	if id != "mind" || password != secret {
		return "who are you?"
	}
	for name, values := range r.PostForm {
		if len(values) != 1 || values[0] == "" {
			return name + " must be there once, with a value"
		}
	}
	switch f := r.PostForm; {
	case f.Get("grant_type") != grantType:
		return "grant_type"
	case f.Get("subject_token") != subject || f.Get("subject_token_type") != TypeAccessToken:
		return "subject_token"
	case f.Get("requested_token_type") != TypeAccessToken:
		return "requested_token_type"
	}
	return ""
}

func say(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body))
}

func (s *strict) exchanger(t *testing.T, change func(*Config)) *Exchanger {
	config := Config{
		URL: s.URL, ClientID: "mind", ClientSecret: secret, Timeout: 30 * time.Second,
		Drive: Target{Audience: "drive", Scope: "read write"}, Atlas: Target{Audience: "atlas", Resource: "https://atlas.example.com/"},
	}
	if change != nil {
		change(&config)
	}
	x, err := New(config)
	require.NoError(t, err)
	t.Cleanup(x.Close)
	return x
}

func TestMint_asTheStandardHasIt(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"basic": nil, "post": func(c *Config) { c.Auth = AuthPost },
		"with parameters": func(c *Config) { c.Parameters = map[string]string{"connector_id": "c"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStrict(t)
			tokens, err := s.exchanger(t, change).Mint(context.Background(), subject)
			require.NoError(t, err)
			require.Equal(t, Tokens{Drive: "minted-for-drive", Atlas: "minted-for-atlas"}, tokens)
			require.Len(t, s.seen, 2)
			for _, form := range s.seen {
				if form.Get("audience") == "drive" {
					require.Equal(t, "read write", form.Get("scope"))
					require.False(t, form.Has("resource"))
				} else {
					require.Equal(t, "https://atlas.example.com/", form.Get("resource"))
				}
				require.Equal(t, name == "with parameters", form.Get("connector_id") == "c")
			}
		})
	}
}

func TestMint_onlyWhatIsWanted(t *testing.T) {
	s := newStrict(t)
	tokens, err := s.exchanger(t, func(c *Config) { c.Atlas = Target{} }).Mint(context.Background(), subject)
	require.NoError(t, err)
	require.Equal(t, Tokens{Drive: "minted-for-drive"}, tokens)
	require.EqualValues(t, 1, s.calls.Load())
}

// Each request exchanges its token again: the result is not shared and not cached.
func TestMint_keepsNothing(t *testing.T) {
	s := newStrict(t)
	x := s.exchanger(t, nil)
	for range 3 {
		_, err := x.Mint(context.Background(), subject)
		require.NoError(t, err)
	}
	require.EqualValues(t, 6, s.calls.Load())
}

func TestMint_answersThatAreNotTaken(t *testing.T) {
	good := map[string]string{
		"access_token": `"minted"`, "issued_token_type": `"` + TypeAccessToken + `"`, "token_type": `"bearer"`, "expires_in": "60",
	}
	body := func(change map[string]string) string {
		var members []string
		for k, v := range good {
			if w, ok := change[k]; ok {
				v = w
			}
			if v != "" {
				members = append(members, `"`+k+`":`+v)
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	cases := map[string]struct {
		code int
		body string
		want error // nil: the answer is accepted
		says string
	}{
		"a good one":                      {200, body(nil), nil, ""},
		"a JWT":                           {200, body(map[string]string{"issued_token_type": `"` + TypeJWT + `"`}), nil, ""},
		"without expires_in":              {200, body(map[string]string{"expires_in": ""}), nil, ""},
		"refused":                         {400, `{"error":"invalid_target","error_description":"no such audience"}`, ErrRefused, "invalid_target no such audience"},
		"unauthorized":                    {401, `{"error":"invalid_client"}`, ErrRefused, "invalid_client"},
		"refused without JSON":            {403, `<html>no</html>`, ErrRefused, "403"},
		"a refusal that repeats secrets":  {400, `{"error":"invalid_grant","error_description":"bad token ` + subject + ` of ` + secret + `"}`, ErrRefused, "bad token ... of ..."},
		"a refusal with half of a secret": {400, `{"error":"x","error_description":"token \n` + subject[:60] + `"}`, ErrRefused, "x token ..."},
		"a refusal that breaks lines":     {400, `{"error":"a\nlevel=ERROR\u001b[31m","error_description":"b"}`, ErrRefused, "a level=ERROR [31m b"},
		"its own fault":                   {500, `{"error":"server_error"}`, ErrUnreachable, "server_error"},
		"too many":                        {429, ``, ErrUnreachable, "429"},
		"a redirect":                      {307, ``, ErrRefused, "307"},
		"accepted, and nothing yet":       {202, body(nil), ErrRefused, "202"},
		"no token":                        {200, body(map[string]string{"access_token": ""}), ErrAnswer, "no access_token"},
		"an empty token":                  {200, body(map[string]string{"access_token": `""`}), ErrAnswer, "no access_token"},
		"not a bearer":                    {200, body(map[string]string{"token_type": `"N_A"`}), ErrAnswer, "token_type"},
		"of no type":                      {200, body(map[string]string{"token_type": ""}), ErrAnswer, "token_type"},
		"an ID token":                     {200, body(map[string]string{"issued_token_type": `"` + TypeIDToken + `"`}), ErrAnswer, "issued_token_type"},
		"a refresh token":                 {200, body(map[string]string{"issued_token_type": `"urn:ietf:params:oauth:token-type:refresh_token"`}), ErrAnswer, "issued_token_type"},
		"issued as nothing":               {200, body(map[string]string{"issued_token_type": ""}), ErrAnswer, "issued_token_type"},
		"the caller's own":                {200, body(map[string]string{"access_token": `"` + subject + `"`}), ErrAnswer, "to be exchanged"},
		"expired":                         {200, body(map[string]string{"expires_in": "0"}), ErrAnswer, "expired"},
		"long expired":                    {200, body(map[string]string{"expires_in": "-5"}), ErrAnswer, "expired"},
		"expires at a word":               {200, body(map[string]string{"expires_in": `"soon"`}), ErrAnswer, "not the JSON"},
		"a token that breaks a header":    {200, body(map[string]string{"access_token": `"a\r\nx-tenant-id: other"`}), ErrAnswer, "header"},
		"a token that is not ASCII":       {200, body(map[string]string{"access_token": `"töken"`}), ErrAnswer, "header"},
		"a token that is too long":        {200, body(map[string]string{"access_token": `"` + strings.Repeat("a", maxToken+1) + `"`}), ErrAnswer, "header"},
		"a long body":                     {200, strings.Repeat(" ", maxAnswer+1), ErrAnswer, "longer than"},
		"no JSON":                         {200, "minted", ErrAnswer, "not the JSON"},
		"nothing":                         {200, "", ErrAnswer, "not the JSON"},
		"a list":                          {200, "[]", ErrAnswer, "not the JSON"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStrict(t)
			s.answer = func(w http.ResponseWriter, _ url.Values) {
				if tc.code == 307 {
					w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				}
				say(w, tc.code, tc.body)
			}
			tokens, err := s.exchanger(t, func(c *Config) { c.Atlas = Target{} }).Mint(context.Background(), subject)
			require.EqualValues(t, 1, s.calls.Load())
			if tc.want == nil {
				require.NoError(t, err)
				require.Equal(t, "minted", tokens.Drive)
				return
			}
			require.ErrorIs(t, err, tc.want)
			require.Zero(t, tokens)
			require.ErrorContains(t, err, tc.says)
			for _, s := range []string{subject, subject[:50], secret, "minted", "\n", "\x1b"} {
				require.NotContains(t, err.Error(), s)
			}
		})
	}
}

func TestMint_anAnswerThatIsNotJSONByItsType(t *testing.T) {
	s := newStrict(t)
	s.answer = func(w http.ResponseWriter, _ url.Values) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`{"access_token":"x","issued_token_type":"` + TypeAccessToken + `","token_type":"Bearer"}`))
	}
	_, err := s.exchanger(t, nil).Mint(context.Background(), subject)
	require.ErrorIs(t, err, ErrAnswer)
}

// Mint returns all tokens or none, and the error is the first failure, and not the cancellation of the other request.
func TestMint_oneOfTwoFails(t *testing.T) {
	s := newStrict(t)
	s.answer = func(w http.ResponseWriter, form url.Values) {
		if form.Get("audience") == "drive" {
			say(w, 400, `{"error":"invalid_target"}`)
			return
		}
		say(w, 200, `{"access_token":"a","issued_token_type":"`+TypeAccessToken+`","token_type":"Bearer"}`)
	}
	tokens, err := s.exchanger(t, nil).Mint(context.Background(), subject)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "a token for scaidrive: ")
	require.Zero(t, tokens)
}

func TestMint_aServerThatIsSilent(t *testing.T) {
	s := newStrict(t)
	leave := make(chan struct{})
	s.answer = func(http.ResponseWriter, url.Values) { <-leave }
	defer close(leave)
	_, err := s.exchanger(t, func(c *Config) { c.Timeout = 50 * time.Millisecond }).Mint(context.Background(), subject)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.exchanger(t, nil).Mint(ctx, subject)
	require.ErrorIs(t, err, context.Canceled)
}

func TestMint_aServerThatIsNotThere(t *testing.T) {
	s := newStrict(t)
	x := s.exchanger(t, nil)
	s.Close()
	_, err := x.Mint(context.Background(), subject)
	require.ErrorIs(t, err, ErrUnreachable)
	require.NotContains(t, err.Error(), s.URL+"/")
}

// An exchange does not fail because the server has closed an idle connection.
func TestMint_connectionsThatWereClosedMeanwhile(t *testing.T) {
	s := newStrict(t)
	var used sync.Map
	next := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := used.LoadOrStore(r.RemoteAddr, true); again {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
			return
		}
		next.ServeHTTP(w, r)
	})
	x := s.exchanger(t, func(c *Config) { c.Atlas = Target{} })
	for range 3 {
		_, err := x.Mint(context.Background(), subject)
		require.NoError(t, err)
	}
}

func TestNew_refusesWhatCannotWork(t *testing.T) {
	good := Config{URL: "https://login.example.com/token", ClientID: "mind", Drive: Target{Audience: "a"}}
	_, err := New(good)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no URL":             {func(c *Config) { c.URL = "" }, "token_exchange_url"},
		"in the clear":       {func(c *Config) { c.URL = "http://login.example.com/token" }, "https"},
		"a password in it":   {func(c *Config) { c.URL = "https://u:p@login.example.com/token" }, "must not contain a user"},
		"no client":          {func(c *Config) { c.ClientID = "" }, "token_exchange_client_id"},
		"no target":          {func(c *Config) { c.Drive = Target{} }, "scaidrive_audience"},
		"another way":        {func(c *Config) { c.Auth = "mutual" }, "token_exchange_auth"},
		"a negative timeout": {func(c *Config) { c.Timeout = -1 }, "token_exchange_timeout"},
		"a parameter of its own": {
			func(c *Config) { c.Parameters = map[string]string{"subject_token": "x"} }, "subject_token is set by the gateway",
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := good
			tc.change(&config)
			_, err := New(config)
			require.ErrorContains(t, err, tc.says)
		})
	}
	for _, local := range []string{"http://127.0.0.1:5556/token", "http://localhost/token", "http://[::1]:1/t"} {
		config := good
		config.URL = local
		_, err := New(config)
		require.NoError(t, err, local)
	}
}
