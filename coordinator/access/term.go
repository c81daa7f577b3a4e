package access

import (
	"context"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// term has the data that a leader keeps in memory for one term.
type term struct {
	tickets *streamTickets
	uses    tokenUse
}

var errNotLeading = call.NotSent("this coordinator is not the leader")

// Lead runs the leader's duties for one term. It returns soon after ctx has ended.
func (s *Service) Lead(ctx context.Context) {
	now := &term{tickets: newStreamTickets()}
	s.term.Store(now)
	var loops sync.WaitGroup
	loops.Go(func() { s.noteTokenUse(ctx, &now.uses) })
	loops.Go(func() { s.configure(ctx) })
	<-ctx.Done()
	s.term.Store(nil)
	loops.Wait()
}

// configurePause is how long a leader waits before it tries again to set the size of the audit log.
const configurePause = 200 * time.Millisecond

// configure sets the size of the audit log as configured for this leader.
func (s *Service) configure(ctx context.Context) {
	want := uint32(s.auditRecords)
	for want != 0 && ctx.Err() == nil {
		finished, records := s.replica.View().Configured()
		if records == want {
			return
		}
		if _, err := replica.Propose[clusterverbs.ConfigureResult](ctx, s.replica, clusterverbs.Configure{KeepFinished: finished, KeepAudit: want}); err == nil {
			s.log.Info("the size of the audit log was changed", "records", want)
			return
		}
		wait.For(ctx, configurePause)
	}
}
