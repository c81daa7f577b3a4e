package gateway

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/mindcoordinator/mind/gateway/ratelimit"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Headers with the rest of a limit, as published.
const (
	headerLimit     = "X-Scaigrid-Ratelimit-Limit"
	headerRemaining = "X-Scaigrid-Ratelimit-Remaining"
	headerReset     = "X-Scaigrid-Ratelimit-Reset"
)

// RateLimits are requests per minute; 0: no limit. Each gateway counts for itself.
type RateLimits struct {
	// Token limits each bearer token, User each user of a tenant, Tenant all users of a tenant together.
	Token, User, Tenant int
}

func (l RateLimits) any() bool { return l.Token > 0 || l.User > 0 || l.Tenant > 0 }

// admit counts a request of a caller; nil: it may continue.
func (s *server) admit(x *rest.Request, now time.Time) *rest.Problem {
	limits := s.config.RateLimits
	if !limits.any() {
		return nil
	}
	v := s.limiter.Take(
		now,
		ratelimit.Limit{Kind: "token", Key: string(x.Credential[:]), PerMinute: limits.Token},
		ratelimit.Limit{Kind: "user", Key: x.Caller.Tenant + "\x00" + x.Caller.User, PerMinute: limits.User},
		ratelimit.Limit{Kind: "tenant", Key: x.Caller.Tenant, PerMinute: limits.Tenant},
	)
	header := x.W.Header()
	header[headerLimit] = []string{strconv.Itoa(v.Limit)}
	header[headerRemaining] = []string{strconv.Itoa(v.Remaining)}
	header[headerReset] = []string{strconv.FormatInt(v.Reset.Unix(), 10)}
	if v.Admitted {
		return nil
	}
	s.Metrics.RateLimited.Inc()
	return &rest.Problem{
		HTTP: http.StatusTooManyRequests, Code: "RATE_LIMITED",
		Message:    fmt.Sprintf("Rate limit exceeded: %d requests per minute", v.Limit),
		RetryAfter: max(1, int(math.Ceil(v.RetryAfter.Seconds()))),
	}
}
