// Package profiling serves profiles of the running process, as net/http/pprof makes them, to operators.
//
// Guarantees: an answer goes to an operator whose certificate was verified, or to a process on the same machine.
// Everybody else gets 403 and a sentence that says why. Nothing is registered with http.DefaultServeMux.
//
// Not guaranteed: that a proxy on the same machine is noticed when it adds none of the usual headers. The command line of the
// process is not served: it may hold secrets.
package profiling

import (
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"github.com/mindcoordinator/mind/pki"
)

// Path is the prefix of the paths of all profiles.
const Path = "/debug/pprof/"

// Handler serves everything below Path.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, pprof.Index)
	mux.HandleFunc("GET "+Path+"profile", pprof.Profile)
	mux.HandleFunc("GET "+Path+"trace", pprof.Trace)
	mux.HandleFunc("GET "+Path+"symbol", pprof.Symbol)
	mux.HandleFunc("POST "+Path+"symbol", pprof.Symbol)
	mux.HandleFunc("GET "+Path+"cmdline", http.NotFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !operator(r) && !sameMachine(r) {
			http.Error(w, "profiles are for operators on this machine: ask from it, not through a proxy, or with an operator's certificate", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func operator(r *http.Request) bool {
	if r.TLS == nil {
		return false
	}
	who, ok := pki.StateIdentity(*r.TLS)
	return ok && who.Is(pki.RoleOperator)
}

// proxied lists the headers that proxies add to a request that they pass on.
var proxied = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// sameMachine reports whether a process on this machine made a request without a proxy: it comes from a loopback
// address, or from the address that it was sent to. Requests of web pages in a browser on this machine do not count:
// their headers name the site that they come from.
func sameMachine(r *http.Request) bool {
	for _, h := range append(proxied, "Origin", "Sec-Fetch-Site") {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if from.Addr().Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	to, err := netip.ParseAddrPort(local.String())
	return err == nil && to.Addr().Unmap() == from.Addr().Unmap()
}

// Beside returns a handler that serves profiles below Path, and passes all other requests to next.
func Beside(next http.Handler) http.Handler {
	profiles := Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, Path) {
			profiles.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
