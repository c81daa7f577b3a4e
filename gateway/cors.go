package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/cors"
)

// preflightFor is how long a browser may remember what it was allowed.
const preflightFor = 10 * time.Minute

// withCORS lets pages of the configured origins use the gateway from a browser. Without any, no answer allows it. No cookie is a
// credential here, so browsers are never told that they may send some.
func (s *server) withCORS(handler http.Handler) http.Handler {
	if len(s.config.CORSOrigins) == 0 {
		return handler
	}
	return cors.New(cors.Options{
		AllowedOrigins: s.config.CORSOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete},
		AllowedHeaders: []string{
			"Authorization", "Content-Type", headerIdempotencyKey, headerLastEventID, headerRequestID, headerTimeout, headerConsistency,
		},
		ExposedHeaders: []string{
			headerRequestID, headerIndex, "Retry-After",
			"X-Scaigrid-Ratelimit-Limit", "X-Scaigrid-Ratelimit-Remaining", "X-Scaigrid-Ratelimit-Reset",
		},
		MaxAge: int(preflightFor.Seconds()),
	}).Handler(handler)
}

// checkOrigin holds that an origin of the configuration is one, as browsers write it: only then it is equal to what they send.
func checkOrigin(origin string) error {
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
