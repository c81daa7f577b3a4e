// Package bounds limits what callers hold open at a gateway: connections in all, and streams of each tenant.
//
// Contract: Listen wraps the listener of a gateway below TLS, and Streams counts the streams of its tenants. The zero value of
// a limit selects its default; Unlimited is no limit.
//
// Guarantees: at most that many connections are open, whatever their callers do. A connection beyond the limit is closed at
// once; without TLS, its caller is told why. The counts are of one gateway.
package bounds

import (
	"cmp"
	"fmt"
	"sync"
)

const (
	// DefaultConnections is the limit of open connections. A process may have 524,288 files by the defaults of systemd, and each
	// connection of an event stream takes some 30 KiB.
	DefaultConnections = 10_000
	// DefaultStreams is the limit of open streams of one tenant.
	DefaultStreams = 100
	// Unlimited is no limit.
	Unlimited = -1
)

// Limits are the bounds of a gateway.
type Limits struct {
	// Connections are the open connections, and Streams the open streams of each tenant.
	Connections, Streams int
}

// WithDefaults fills in what is not given.
func (l Limits) WithDefaults() Limits {
	l.Connections, l.Streams = cmp.Or(l.Connections, DefaultConnections), cmp.Or(l.Streams, DefaultStreams)
	return l
}

// Validate returns an error for a number that is no limit.
func (l Limits) Validate() error {
	for name, n := range map[string]int{"max_connections": l.Connections, "max_streams_per_tenant": l.Streams} {
		if n < Unlimited {
			return fmt.Errorf("%s is %d: give a number, 0 for the default, or %d for no limit", name, n, Unlimited)
		}
	}
	return nil
}

// Streams counts the open streams of each tenant.
type Streams struct {
	most int
	mu   sync.Mutex
	open map[string]int
}

// NewStreams returns an empty count with a limit for each tenant.
func NewStreams(most int) *Streams { return &Streams{most: most, open: make(map[string]int)} }

// Open counts one more stream of a tenant, until close is called. It returns an error, which says what to do, if the tenant has
// as many as it may have.
func (s *Streams) Open(tenant string) (close func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most >= 0 && s.open[tenant] >= s.most {
		return nil, fmt.Errorf("the tenant has %d open streams (events, logs, metrics, shells and ports), and may have %d at this gateway: close some, or let the operator raise max_streams_per_tenant",
			s.open[tenant], s.most)
	}
	s.open[tenant]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[tenant]--; s.open[tenant] == 0 {
			delete(s.open, tenant)
		}
	}), nil
}
