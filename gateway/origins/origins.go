// Package origins decides which web pages may use a gateway from a browser (CORS).
//
// Guarantees: without a configured origin no response allows any origin. Pages of other origins are never allowed to send
// credentials of the browser: the cookie of a session is for the gateway's own pages (package session).
package origins

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/cors"
)

// preflightFor is how long a browser may cache a preflight answer.
const preflightFor = 10 * time.Minute

// Allow lets pages of these origins use a handler: send these request headers, and read these response headers.
func Allow(handler http.Handler, origins, send, read []string) http.Handler {
	if len(origins) == 0 {
		return handler
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: send,
		ExposedHeaders: read,
		MaxAge:         int(preflightFor.Seconds()),
	}).Handler(handler)
}

// Check requires that a configured origin is written as browsers write it: only then can it match what they send.
func Check(origin string) error {
	const want = "is not an origin such as https://dashboard.example.com: scheme, host in lower case, and a port that is not the scheme's own"
	u, err := url.Parse(origin)
	switch {
	case origin == "*":
		return fmt.Errorf("cors_origins: * would let every page in the world use this gateway: list the origins")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.Scheme+"://"+u.Host != origin,
		origin != strings.ToLower(origin), strings.Contains(origin, "*"), u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443",
		strings.HasSuffix(u.Host, ":"):
		return fmt.Errorf("cors_origins: %q %s", origin, want)
	}
	return nil
}
