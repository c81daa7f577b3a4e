package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/reach"
)

// secretA is the secret of the test vector of Standard Webhooks.
const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// verify verifies a signature as a receiver does, after the specification: https://www.standardwebhooks.com.
func verify(secret string, header http.Header, body string, now time.Time) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("the timestamp is missing or too far away")
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, header.Get("webhook-id")+"."+header.Get("webhook-timestamp")+"."+body)
	for _, one := range strings.Split(header.Get("webhook-signature"), " ") {
		version, signature, _ := strings.Cut(one, ",")
		got, err := base64.StdEncoding.DecodeString(signature)
		if version == "v1" && err == nil && hmac.Equal(got, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("no signature matches")
}

func TestSign_isThatOfTheSpecification(t *testing.T) {
	k, err := parseKeys(secretA + "\n")
	require.NoError(t, err)
	at := time.Unix(1614265330, 0)
	const id, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
	signature := k.sign(id, at, []byte(body))
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signature)

	both, err := parseKeys("# the new one, then the old one\n\n" + secretB + "\n" + strings.TrimPrefix(secretA, "whsec_"))
	require.NoError(t, err)
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", both.sign(id, at, []byte(body)))
	for _, secret := range []string{secretA, secretB} {
		require.NoError(t, verify(secret, header, body, at), "while a secret is rotated, receivers with either verify")
		require.Error(t, verify(secret, header, body+" ", at))
	}
	require.Error(t, verify("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32)), header, body, at))
}

func TestKeys_refuseWhatDoesNotSign(t *testing.T) {
	for text, why := range map[string]string{
		"": "it has no secret", "# none\n": "it has no secret", "\nwhsec_short": "line 2 is not", "whsec_" + strings.Repeat("A", 20): "line 1 is not",
		strings.Repeat(secretA+"\n", 9): "at most 8",
	} {
		_, err := parseKeys(text)
		require.ErrorContains(t, err, why)
	}
	require.ErrorContains(t, Settings{SecretFile: "x"}.Validate(), "give both or none")
	require.ErrorContains(t, Settings{URL: "https://a.example"}.Validate(), "both for webhook_url")
	require.ErrorContains(t, Settings{SecretFile: "x", Hosts: []string{"a.example"}, URL: "https://b.example"}.Validate(), "webhook_url: b.example is not in webhook_hosts")
	require.ErrorContains(t, Settings{SecretFile: "x", Hosts: []string{"a b"}}.Validate(), "webhook_hosts")
	_, err := New(Config{Settings: Settings{SecretFile: filepath.Join(t.TempDir(), "none"), Hosts: []string{"a.example"}}})
	require.ErrorContains(t, err, "webhook_secret_file")
}

func secretFile(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func sender(t testing.TB, change func(*Config)) *Sender {
	c := Config{
		Settings: Settings{SecretFile: secretFile(t, secretA), Hosts: []string{"127.0.0.1"}},
		Show: func(d *executions.Decision) map[string]any {
			return map[string]any{"id": d.ID.String(), "prompt": d.Prompt}
		},
		Tried: func(string) {}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	require.NoError(t, err)
	t.Cleanup(s.closeIdle)
	return s
}

func asked(url string) (*executions.Decision, executions.Notice) {
	return &executions.Decision{ID: 9, Tenant: "acme", Prompt: "Ship it?", NotifyURL: url}, executions.Notice{Number: 3, Event: executions.NoticeReminder, At: 1_700_000_000e9}
}

func TestPost_isSignedAndSaysWhatHappened(t *testing.T) {
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	s := sender(t, nil)
	d, n := asked(server.URL + "/x?token=t")
	require.NoError(t, s.post(t.Context(), s.keys, ofDecision(d, n)))
	require.NoError(t, verify(secretA, header, string(body), time.Now()))
	require.Equal(t, []string{"application/json", "mind"}, []string{header.Get("Content-Type"), header.Get("User-Agent")})
	var got map[string]any
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, map[string]any{
		"event": "decision.reminder", "event_type": "scaicore.checkpoint_pending", "event_id": header.Get("Webhook-Id"), "source": "scaicore",
		"tenant_id": "acme", "timestamp": "2023-11-14T22:13:20Z", "payload": map[string]any{"id": "dec_9", "prompt": "Ship it?"},
	}, got)
	require.Equal(t, "dec_9_3_17979cfe362a0000", header.Get("Webhook-Id"), "it is the same for each try")
}

func TestPost_whatCountsAsSent(t *testing.T) {
	elsewhere := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere = true }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		default:
			code, _ := strconv.Atoi(r.URL.Path[1:])
			w.WriteHeader(code)
		}
	}))
	defer server.Close()
	s := sender(t, nil)
	for path, why := range map[string]string{
		"/200": "", "/204": "", "/endless": "", "/400": "it answered 400", "/500": "it answered 500", "/410": "it answered 410 Gone",
		"/redirect": "it answered 307, and redirects are not followed",
	} {
		d, n := asked(server.URL + path)
		if err := s.post(t.Context(), s.keys, ofDecision(d, n)); why == "" {
			require.NoError(t, err, path)
		} else {
			require.EqualError(t, err, why, path)
		}
	}
	require.False(t, elsewhere, "a redirect was followed")
}

// The owner of a name can point it at an address of the coordinator or of its network. The name of this test's server is localhost.
func TestPost_noNameLeadsInside(t *testing.T) {
	inside := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside = true }))
	defer server.Close()
	s := sender(t, func(c *Config) { c.Hosts = []string{"*"} })
	d, n := asked(strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/secret")
	err := s.post(t.Context(), s.keys, ofDecision(d, n))
	require.EqualError(t, err, "localhost leads to an address that is not public, and not in webhook_hosts of the coordinators")
	require.ErrorAs(t, err, new(reach.Refusal))
	require.False(t, inside)
	for url, why := range map[string]string{"https://169.254.169.254/latest/meta-data/": "is never asked", "https://10.0.0.1/": "is not a public address"} {
		d, n := asked(url)
		require.ErrorContains(t, s.post(t.Context(), s.keys, ofDecision(d, n)), why)
	}
}

func TestPost_errorsDoNotShowTheURL(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s := sender(t, nil)
	d, n := asked(server.URL + "/path?token=canary")
	err := s.post(t.Context(), s.keys, ofDecision(d, n))
	require.ErrorContains(t, err, "the connection failed")
	require.NotContains(t, err.Error(), "canary")
	require.NotContains(t, err.Error(), "127.0.0.1")

	off := sender(t, func(c *Config) { c.Settings = Settings{} })
	require.EqualError(t, off.post(t.Context(), nil, ofDecision(d, n)), errOff.Error())
}

// The answer of a service that is no receiver is not shown to those who see the decision.
func TestPost_errorsDoNotShowAnswers(t *testing.T) {
	raw := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, answer)
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	s := sender(t, nil)
	for url, why := range map[string]string{
		"http://" + raw("220 mail.canary ESMTP\r\n"):                               "it gave no HTTP answer",
		"http://" + raw("HTTP/1.1 canary\r\n\r\n"):                                 "it gave no HTTP answer",
		"http://" + raw("HTTP/1.1 307 canary\r\nLocation: http://[canary\r\n\r\n"): "it answered 307, and redirects are not followed",
		"http://" + raw("HTTP/1.1 200 OK\r\nContent-Length: canary\r\n\r\n"):       "it gave no HTTP answer",
		"http://" + raw(""):                             "the connection broke",
		"https://" + raw("220 mail.canary ESMTP\r\n"):   "TLS failed",
		"https://" + raw("HTTP/1.1 400 canary\r\n\r\n"): "TLS failed",
		encrypted.URL: "TLS failed: its certificate does not verify",
	} {
		d, n := asked(url + "/x")
		require.EqualError(t, s.post(t.Context(), s.keys, ofDecision(d, n)), why, url)
	}
	for err, why := range map[error]string{
		&net.DNSError{Err: "canary", Name: "canary"}:                                       "its name cannot be resolved",
		&net.OpError{Op: "remote error", Err: errors.New("canary")}:                        "TLS failed",
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}:      "the connection broke",
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}: "the connection failed: connection refused",
		&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}:                              "it did not answer within 10s",
		fmt.Errorf("canary: %w", context.DeadlineExceeded):                                 "it did not answer within 10s",
		fmt.Errorf("canary: %w", reach.Refusal("no")):                                      "no",
		errors.New("canary"): "it gave no HTTP answer",
	} {
		require.EqualError(t, plain(err), why)
	}
}
