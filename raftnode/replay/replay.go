// Package replay brings a state machine of its own to an earlier state of a replica that runs: it restores a snapshot and
// applies the log behind it.
//
// Guarantees: it only reads, and what runs is not held up: raft and the state machine of the replica are not asked for
// anything. The state at an index is the one that every replica had there. It ends with its context.
//
// Not guaranteed: that a moment can be reached. Only the newest snapshots are kept, and the log behind the oldest of them that
// the log still continues; TooOldError says from where on. (Package verify replays a log that nobody uses.)
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

// State is a state machine that the log is replayed into.
type State interface {
	machine.StateMachine
	// Now is the time of the state; it never goes back.
	Now() time.Time
	// TimeOf is the time of an entry.
	TimeOf(entry []byte) time.Time
}

// Moment is a place in the log: that of an entry, or, without an index, the one before the time of the state passes Time.
type Moment struct {
	Index uint64
	Time  time.Time
}

// Source is what a replica keeps.
type Source struct {
	Log       raft.LogStore
	Snapshots raft.SnapshotStore
	// Applied is the index up to which entries are certain.
	Applied uint64
}

// TooOldError says which is the oldest moment that can be reached.
type TooOldError struct{ Oldest Moment }

func (e *TooOldError) Error() string {
	return fmt.Sprintf("the oldest state that can be reached is that of entry %d (%s)", e.Oldest.Index, e.Oldest.Time.UTC().Format(time.RFC3339))
}

// TooNewError says which entry is the last one yet.
type TooNewError struct{ Newest uint64 }

func (e *TooNewError) Error() string { return fmt.Sprintf("the last entry yet is %d", e.Newest) }

// ErrMoved says that what was to be read was removed meanwhile, because newer snapshots were taken.
var ErrMoved = errors.New("the log was shortened while it was read")

// tries is how often a replay is begun again when what it reads is removed under it.
const tries = 3

// To brings a fresh state to a moment. It returns the state, and the index of the last entry that it has or that changes
// nothing in it.
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

// base is what the log can be replayed onto: a snapshot, or, without an id, the state before the first entry.
type base struct {
	id    string
	index uint64
}

// bases lists them, the newest first: the log behind it is the shortest.
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

// restore reads a snapshot.
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

// apply applies the entries after an index, up to the moment.
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

// bounded reads until its context ends.
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
