package rest

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/metrics"
)

// Server has the things that all requests of a gateway share.
type Server struct {
	Log      *slog.Logger
	Metrics  *metrics.Metrics
	Proxies  auth.Proxies
	Timeouts Timeouts
	Limits   Limits
	// Exchange adds tokens for other services to a call, and returns what is left of its time; nil: calls carry none.
	Exchange func(x *Request, call *client.Call, limit time.Duration) (time.Duration, error)
	// Denied collects denied requests until they are reported to the coordinators.
	Denied denials.Tally

	// Opened counts the streams of each tenant.
	Opened *bounds.Streams
	// Drained is closed when streams are to end. Streams waits for them.
	Drained chan struct{}
	Streams sync.WaitGroup

	index atomic.Uint64 // the newest index in any answer
}

// sawIndex records the index of an answer and returns it; for an answer without one, it returns the newest recorded index.
func (s *Server) sawIndex(index uint64) uint64 {
	for {
		newest := s.index.Load()
		if index == 0 {
			return newest
		}
		if index <= newest || s.index.CompareAndSwap(newest, index) {
			return index
		}
	}
}
