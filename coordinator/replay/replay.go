// Package replay rebuilds the state of an earlier moment, for questions about past decisions.
//
// Guarantees. The state is rebuilt from a snapshot and the log of this replica, which only reads files. A replica
// rebuilds one state at a time: other calls wait a little, and are then refused. No rebuilt state is kept.
//
// Not guaranteed: that a moment can still be rebuilt. Each replica keeps its own snapshots and log, and reports its
// oldest moment.
package replay

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/raftnode/replay"
)

// Moment is an index of the log or, without one, a time.
type Moment = replay.Moment

// patience is how long a call waits for those before it.
const patience = 5 * time.Second

// Replays rebuilds earlier states, one at a time.
type Replays struct {
	id   string
	kept func() replay.Source
	turn chan struct{}
}

// New returns Replays from the log and snapshots of the replica with an id.
func New(id string, kept func() replay.Source) *Replays {
	return &Replays{id: id, kept: kept, turn: make(chan struct{}, 1)}
}

// Past is the state at an earlier moment.
type Past struct {
	View *fsm.View
	// Index is the index of the last entry until then. Time is the requested time, or that of the state.
	Index uint64
	Time  time.Time
	// Last is the last change of the job; nil: it is older than the rebuilt log.
	Last *Change
}

// Change is a change of a job's state. From and To are equal if only its stop intent changed.
type Change struct {
	Index    uint64
	Time     time.Time
	From, To v1.JobState_Value
	Stop     v1.StopReason_Value
	Attempt  uint32
	Nodes    []string
}

// See rebuilds the state of a moment, and calls see with it and with the last change of a job until then.
func (r *Replays) See(ctx context.Context, at Moment, job ident.Job, see func(*Past) error) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() { <-r.turn }()
	past := &Past{}
	s, index, err := replay.To(ctx, r.kept(), at, func() hosted {
		past.Last = nil
		m := fsm.New()
		m.OnApply(func(v *fsm.View, events []event.Event) { past.note(v, job, events) })
		return hosted{replica.Hosted{Machine: m}}
	})
	if err != nil {
		return r.refused(at, err)
	}
	past.View, past.Index, past.Time = s.View(), index, at.Time
	if at.Index != 0 {
		past.Time = s.Now()
	}
	return see(past)
}

func (r *Replays) begin(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-within.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return call.Errorf(codes.ResourceExhausted, "%s replays its log for others at the moment, one at a time: ask again in a few seconds", r.id)
}

// refused translates an error for callers.
func (r *Replays) refused(at Moment, err error) error {
	var (
		old *replay.TooOldError
		new *replay.TooNewError
	)
	switch {
	case errors.As(err, &new):
		return call.Bad("at", "entry %d is not written yet: the last one is %d", at.Index, new.Newest)
	case errors.As(err, &old):
		return call.Errorf(codes.FailedPrecondition,
			"at: %s keeps its log from entry %d (%s) on, and this is older: ask for that or for a later moment; another coordinator may keep more",
			r.id, old.Oldest.Index, clock(old.Oldest.Time))
	case errors.Is(err, replay.ErrMoved):
		return call.Errorf(codes.ResourceExhausted, "the log of %s was shortened while it was read: ask again", r.id)
	}
	return err
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// note stores the last change of a job.
func (p *Past) note(v *fsm.View, job ident.Job, events []event.Event) {
	for i := range events {
		e := &events[i]
		if e.Topic != event.TopicJob || e.Job != job || e.From == e.To && (e.Stop == v1.StopReason_UNSPECIFIED || p.Last != nil && p.Last.Stop == e.Stop) {
			continue
		}
		p.Last = &Change{
			Index: e.Index, Time: time.Unix(0, v.Now()), From: e.From, To: e.To, Stop: e.Stop, Attempt: e.Attempt,
			Nodes: append([]string(nil), e.Nodes...),
		}
	}
}

// hosted is the state machine that the log is replayed into.
type hosted struct{ replica.Hosted }

// Now implements replay.State.
func (h hosted) Now() time.Time { return time.Unix(0, h.View().Now()) }

// TimeOf implements replay.State.
func (h hosted) TimeOf(entry []byte) time.Time { return time.Unix(0, kernel.TimeOf(entry)) }
