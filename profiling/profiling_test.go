package profiling

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func ask(path, from string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = from
	local := &net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 7002}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func certified(role string, verified bool) func(*http.Request) {
	return func(r *http.Request) {
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "x", OrganizationalUnit: []string{role}}}
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{cert}}
		}
	}
}

func header(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, "10.9.9.9") }
}

func TestHandler_whoMayAsk(t *testing.T) {
	for name, c := range map[string]struct {
		from   string
		change func(*http.Request)
		code   int
	}{
		"loopback":                         {"127.0.0.1:1", nil, 200},
		"loopback, IPv6":                   {"[::1]:1", nil, 200},
		"loopback, mapped":                 {"[::ffff:127.0.0.1]:1", nil, 200},
		"the machine's own address":        {"10.0.0.1:1", nil, 200},
		"the network":                      {"10.0.0.2:1", nil, 403},
		"no address":                       {"@", nil, 403},
		"a proxy on the machine":           {"127.0.0.1:1", header("X-Forwarded-For"), 403},
		"another proxy":                    {"127.0.0.1:1", header("Via"), 403},
		"a page in a browser":              {"127.0.0.1:1", header("Origin"), 403},
		"an operator, from the network":    {"10.0.0.2:1", certified("operator", true), 200},
		"not verified":                     {"10.0.0.2:1", certified("operator", false), 403},
		"an agent's certificate":           {"10.0.0.2:1", certified("agent", true), 403},
		"an operator through a proxy, too": {"127.0.0.1:1", certified("operator", true), 200},
	} {
		w := ask(Path+"goroutine?debug=1", c.from, c.change)
		require.Equal(t, c.code, w.Code, name)
		if c.code == 403 {
			require.Contains(t, w.Body.String(), "profiles are for operators", name)
		} else {
			require.Contains(t, w.Body.String(), "goroutine profile:", name)
		}
	}
}

func TestHandler_whatIsServed(t *testing.T) {
	require.Contains(t, ask(Path, "127.0.0.1:1", nil).Body.String(), "heap")
	require.Equal(t, 200, ask(Path+"heap", "127.0.0.1:1", nil).Code)
	require.Equal(t, 404, ask(Path+"cmdline", "127.0.0.1:1", nil).Code, "a command line may hold secrets")
	require.Equal(t, 404, ask(Path+"nothing", "127.0.0.1:1", nil).Code)
}

func TestBeside_leavesAllElseAlone(t *testing.T) {
	h := Beside(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, code := range map[string]int{Path + "heap": http.StatusForbidden, "/v1/jobs": http.StatusTeapot, "/debug/": http.StatusTeapot} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		require.Equal(t, code, w.Code, path)
	}
}
