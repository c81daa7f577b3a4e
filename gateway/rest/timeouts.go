package rest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Timeouts are the durations that a gateway uses.
type Timeouts struct {
	// Request limits a request whose caller sent no X-Request-Timeout; default 30 s.
	Request time.Duration
	// MaxRequest limits the value of X-Request-Timeout; default 5 min.
	MaxRequest time.Duration
	// Stream is how long a stream of a coordinator is read before it is reopened after its last entry; default: no limit.
	Stream time.Duration
	// NoLeader is how long a request is retried while no coordinator accepts it; default 10 s.
	NoLeader time.Duration
	// Header and Body limit the time to read a request; defaults 10 s and 60 s.
	Header time.Duration
	Body   time.Duration
	// Keepalive is the interval of comments on an idle event stream; default 15 s.
	Keepalive time.Duration
	// StreamToken is how often the token behind an event stream is checked again; default 30 s.
	StreamToken time.Duration
	// Denials is how often denied requests are reported to the coordinators; default 1 min.
	Denials time.Duration
	// Shutdown limits how long requests may take to finish at shutdown; default 5 s.
	Shutdown time.Duration
}

// Limits limit the size of a request.
type Limits struct {
	// Body and BatchBody limit the bytes of a request body; defaults 1 MiB and 8 MiB.
	Body      int64
	BatchBody int64
	// BatchJobs limits the jobs of a batch; default 1,000.
	BatchJobs int
}

// WithDefaults fills in what is not given.
func (t Timeouts) WithDefaults() Timeouts {
	t.Request = cmp.Or(t.Request, 30*time.Second)
	t.MaxRequest = cmp.Or(t.MaxRequest, 5*time.Minute)
	t.NoLeader = cmp.Or(t.NoLeader, 10*time.Second)
	t.Header = cmp.Or(t.Header, 10*time.Second)
	t.Body = cmp.Or(t.Body, time.Minute)
	t.Keepalive = cmp.Or(t.Keepalive, 15*time.Second)
	t.StreamToken = cmp.Or(t.StreamToken, 30*time.Second)
	t.Denials = cmp.Or(t.Denials, time.Minute)
	t.Shutdown = cmp.Or(t.Shutdown, 5*time.Second)
	return t
}

// Validate says which values are negative. Each would refuse every request, or flood every stream.
func (t Timeouts) Validate() error {
	return notNegative(map[string]time.Duration{
		"request_timeout": t.Request, "max_request_timeout": t.MaxRequest, "stream_timeout": t.Stream, "no_leader_timeout": t.NoLeader,
		"header_timeout": t.Header, "body_timeout": t.Body, "keepalive": t.Keepalive, "shutdown_timeout": t.Shutdown,
	})
}

// Validate says which values are negative.
func (l Limits) Validate() error {
	return notNegative(map[string]int64{"max_body_bytes": l.Body, "max_batch_bytes": l.BatchBody, "max_batch_jobs": int64(l.BatchJobs)})
}

func notNegative[N ~int64](values map[string]N) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: it must not be negative; leave it out for the default", name, values[name]))
		}
	}
	return errors.Join(errs...)
}

// WithDefaults fills in what is not given.
func (l Limits) WithDefaults() Limits {
	l.Body, l.BatchBody, l.BatchJobs = cmp.Or(l.Body, 1<<20), cmp.Or(l.BatchBody, 8<<20), cmp.Or(l.BatchJobs, 1000)
	return l
}
