package access

import (
	"context"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work"
)

// term is what a leader keeps for one term, in memory alone.
type term struct {
	tickets *streamTickets
	uses    tokenUse
}

var errNotLeading = call.NotSent("this coordinator does not lead (any more)")

// Lead does for one term what only the leader does. It returns soon after ctx has ended.
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

// configurePause is how long a leader waits before it tries again to bound the audit log.
const configurePause = 200 * time.Millisecond

// configure has the cluster keep as many audit records as this leader was told.
func (s *Service) configure(ctx context.Context) {
	want := uint32(s.auditRecords)
	for want != 0 && ctx.Err() == nil {
		now := s.replica.View().Configured()
		if now.KeepAudit == want {
			return
		}
		now.KeepAudit = want
		if _, err := replica.Propose[work.ConfigureResult](ctx, s.replica, now); err == nil {
			s.log.Info("the audit log is bounded anew", "records", want)
			return
		}
		wait.For(ctx, configurePause)
	}
}
