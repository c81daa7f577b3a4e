package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// segments is a log of the kind WAL that works around faults of the library.
type segments struct {
	*wal.WAL
	log   *slog.Logger
	votes raft.StableStore
	begin *beginWatch
	// newest is the index of the first entry in the newest segment, even if it is not written yet.
	newest atomic.Uint64
	// first says that nothing was written since the log was opened.
	first atomic.Bool
	// failed says that a write has failed, so that the content of the disk is unknown.
	failed atomic.Bool

	mu      sync.Mutex
	reached uint64
}

// beginWatch remembers why a segment could not be begun, for example on a full disk. The library only logs the reason;
// its error at the next write says only that the segment before is sealed.
type beginWatch struct {
	*segment.Filer

	mu  sync.Mutex
	err error
}

func newBeginWatch(dir string) *beginWatch {
	return &beginWatch{Filer: segment.NewFiler(dir, walfs.New())}
}

// Create implements types.SegmentFiler.
func (w *beginWatch) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	f, err := w.Filer.Create(info)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	return f, err
}

func (w *beginWatch) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// GetLog implements raft.LogStore. The library would still return entries that were deleted from the newest segment.
func (s *segments) GetLog(index uint64, entry *raft.Log) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	if index < first {
		return raft.ErrLogNotFound
	}
	return s.WAL.GetLog(index, entry)
}

// StoreLog implements raft.LogStore.
func (s *segments) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore. After raft has installed a snapshot it empties the log and continues after the
// snapshot. If it was killed before it emptied the log, or could not empty it, the log ends before the snapshot, and
// the library would refuse the gap for ever. So StoreLogs removes the entries before a gap.
func (s *segments) StoreLogs(entries []*raft.Log) error {
	if len(entries) > 0 {
		if err := s.closeGap(entries[0].Index); err != nil {
			return err
		}
	}
	err := s.WAL.StoreLogs(entries)
	if why := s.begin.failure(); err != nil && why != nil {
		err = fmt.Errorf("begin a new segment of the log: %w (%w)", why, err)
	}
	if err == nil && len(entries) > 0 {
		err = s.wrote(entries[len(entries)-1].Index)
	}
	if err != nil {
		s.failed.Store(true)
	}
	return err
}

// DeleteRange implements raft.LogStore.
func (s *segments) DeleteRange(low, high uint64) error {
	err := s.retreat(low, high)
	if err == nil {
		err = s.WAL.DeleteRange(low, high)
	}
	if err != nil {
		s.failed.Store(true)
	}
	return err
}

// Close notes the last index of the log before it closes it.
func (s *segments) Close() error {
	var err error
	if !s.failed.Load() {
		var last uint64
		if last, err = s.LastIndex(); err == nil {
			err = s.reach(last)
		}
	}
	return errors.Join(err, s.WAL.Close())
}

func (s *segments) closeGap(next uint64) error {
	last, err := s.LastIndex()
	if err != nil || last == 0 || next <= last+1 {
		return err
	}
	first, err := s.FirstIndex()
	if err == nil {
		err = s.DeleteRange(first, last)
	}
	if err != nil {
		return fmt.Errorf("remove the entries that a snapshot has: %w", err)
	}
	s.log.Info("entries that a snapshot has are removed from the log", "first", first, "last", last, "goes_on_at", next)
	return nil
}
