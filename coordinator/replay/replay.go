// Package replay shows the state of an earlier moment, for questions about what was decided then.
//
// Guarantees. The state is made again, from a snapshot and the log of this replica; what runs is not touched. One is made at a
// time on a replica: others wait a little, and are then told to ask again. Nothing of it is kept.
//
// Not guaranteed: that a moment is still there. Each replica keeps its own snapshots and log, and says which is its oldest
// moment.
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

// Moment is what is asked for: the state at an index, or, without one, at a time.
type Moment = replay.Moment

// patience is how long a question waits for those before it.
const patience = 5 * time.Second

// Replays answers questions about earlier moments, one at a time.
type Replays struct {
	id   string
	kept func() replay.Source
	turn chan struct{}
}

// New makes Replays of what the replica with an id keeps.
func New(id string, kept func() replay.Source) *Replays {
	return &Replays{id: id, kept: kept, turn: make(chan struct{}, 1)}
}

// Past is the state at an earlier moment.
type Past struct {
	View *fsm.View
	// Index is that of the last entry until then. Time is the time that was asked for, or that of the state.
	Index uint64
	Time  time.Time
	// Last is the last thing that happened to the job; nil: it is too long ago to be seen.
	Last *Change
}

// Change is something that happened to a job. From and To are equal when only its stop intent changed.
type Change struct {
	Index    uint64
	Time     time.Time
	From, To v1.JobState_Value
	Stop     v1.StopReason_Value
	Attempt  uint32
	Nodes    []string
}

// See makes the state of a moment, and shows it, with what happened to a job until then.
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

// refused puts it into words for callers.
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

// note remembers the last thing that happened to a job.
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
