// Package replay computes an earlier state of a running replica in another state machine: it restores a snapshot and
// applies the log after it.
//
// Guarantees: it only reads the log and the snapshots, and does not delay the replica's raft and state machine. The
// state at an index is the one that every replica had there. A replay ends when its context ends.
//
// Not guaranteed: that a moment can be reached. A replica keeps only the newest snapshots, and the log after the oldest
// of them. TooOldError names the oldest moment that can be reached. (Package verify replays the log of a replica that
// does not run.)
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/machine"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// State is a state machine into which a log can be replayed.
type State interface {
	machine.StateMachine
	// Now returns the time of the state, which never decreases.
	Now() time.Time
	// TimeOf returns the time of an entry.
	TimeOf(entry []byte) time.Time
}

// Moment is a position in the log: after the entry Index, or, if that is 0, after the last entry before the first one
// that is later than Time.
type Moment struct {
	Index uint64
	Time  time.Time
}

// Source is the log and the snapshots of a replica.
type Source struct {
	Log       raft.LogStore
	Snapshots raft.SnapshotStore
	// Applied is the index up to which entries are applied, and so committed.
	Applied uint64
}

// TooOldError says that a moment cannot be reached, and names the oldest one that can.
type TooOldError struct{ Oldest Moment }

func (e *TooOldError) Error() string {
	return fmt.Sprintf("the oldest state that can be reached is that of entry %d (%s)", e.Oldest.Index, e.Oldest.Time.UTC().Format(time.RFC3339))
}

// TooNewError says that an entry does not exist yet, and names the last one.
type TooNewError struct{ Newest uint64 }

func (e *TooNewError) Error() string { return fmt.Sprintf("the last entry yet is %d", e.Newest) }

// ErrMoved says that a snapshot or an entry was removed while it was needed, because newer snapshots were taken.
var ErrMoved = errors.New("the log was shortened while it was read")

// tries limits how often a replay is tried when it fails with ErrMoved.
const tries = 3

// To replays the log up to a moment into a state that fresh returns. It returns the state, and the index of the last
// entry up to the moment.
func To[S State](ctx context.Context, from Source, to Moment, fresh func() S) (S, uint64, error) {
	var none S
	if to.Index > from.Applied {
		return none, 0, &TooNewError{from.Applied}
	}
	for try := 1; ; try++ {
		s, at, err := once(ctx, from, to, fresh)
		switch {
		case err == nil:
			return s, at, nil
		case !errors.Is(err, ErrMoved) || try == tries:
			return none, 0, err
		}
	}
}

func once[S State](ctx context.Context, from Source, to Moment, fresh func() S) (s S, at uint64, err error) {
	bases, err := from.bases()
	if err != nil {
		return s, 0, err
	}
	for i, b := range bases {
		oldest := i == len(bases)-1
		if to.Index != 0 && b.index > to.Index && !oldest {
			continue
		}
		s = fresh()
		m := machine.New(s)
		if err := from.restore(ctx, b, m); err != nil {
			return s, 0, err
		}
		if to.Index != 0 && b.index <= to.Index || to.Index == 0 && !s.Now().After(to.Time) {
			at, err = from.apply(ctx, to, m, s, b.index)
			return s, at, err
		}
		if oldest {
			return s, 0, &TooOldError{Moment{b.index, s.Now()}}
		}
	}
	return s, 0, errors.New("there is no snapshot that the log continues")
}

// base is a state onto which the log can be replayed: that of a snapshot, or, without an id, the state before the first
// entry.
type base struct {
	id    string
	index uint64
}

// bases returns all bases, the newest first, because the least entries must be replayed onto it.
func (f Source) bases() (all []base, err error) {
	first, err := f.Log.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("find the first entry: %w", err)
	}
	last, err := f.Log.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("find the last entry: %w", err)
	}
	snapshots, err := f.Snapshots.List()
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	for _, s := range snapshots {
		if first <= s.Index+1 || last <= s.Index {
			all = append(all, base{s.ID, s.Index})
		}
	}
	if first == 1 {
		all = append(all, base{})
	}
	return all, nil
}

// restore restores a base into a state machine.
func (f Source) restore(ctx context.Context, b base, into *machine.Machine) error {
	if b.id == "" {
		return nil
	}
	_, r, err := f.Snapshots.Open(b.id)
	if err != nil {
		return fmt.Errorf("%w: open snapshot %s: %w", ErrMoved, b.id, err)
	}
	err = verify.Guarded(func() error { return into.Restore(bounded{ctx, r}) })
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("restore snapshot %s: %w", b.id, err)
	}
	return context.Cause(ctx)
}

// apply applies the entries after index at up to a moment, and returns the index of the last one.
func (f Source) apply(ctx context.Context, to Moment, m *machine.Machine, s State, at uint64) (uint64, error) {
	end := to.Index
	if end == 0 {
		end = f.Applied
	}
	for at < end {
		if ctx.Err() != nil {
			return at, context.Cause(ctx)
		}
		past := false
		err := verify.Guarded(func() error {
			entry := &raft.Log{}
			switch err := f.Log.GetLog(at+1, entry); {
			case errors.Is(err, raft.ErrLogNotFound):
				return fmt.Errorf("%w: entry %d is gone", ErrMoved, at+1)
			case err != nil:
				return err
			}
			commands := entry.Type == raft.LogCommand && len(entry.Data) > 0
			past = commands && to.Index == 0 && s.TimeOf(entry.Data).After(to.Time)
			if !past && (commands || entry.Type == raft.LogConfiguration) {
				m.ApplyBatch([]*raft.Log{entry})
			}
			return nil
		})
		if err != nil {
			return at, fmt.Errorf("replay entry %d: %w", at+1, err)
		}
		if past {
			break
		}
		at++
	}
	return at, nil
}

// bounded is a reader that fails when its context has ended.
type bounded struct {
	ctx context.Context
	io.ReadCloser
}

func (b bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.ReadCloser.Read(p)
}
