package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"

	"github.com/mindcoordinator/mind/durable"
)

// keyReached is the key in raft.db for an index that a log in wal/ has certainly reached. Without it a segment that was
// removed or emptied would look like one that was listed and not yet made, and nothing would show that its entries are
// lost. The index is written when the log is opened and closed, with the first write after opening, and with the first
// write to each segment, before that write is acknowledged. It costs one more write for every 16 MiB of log.
var keyReached = []byte("LogReached")

// CheckReached returns an error if a log in wal/ ends before the index that it has reached.
func CheckReached(votes raft.StableStore, log raft.LogStore) error {
	reached, err := readReached(votes)
	if err != nil {
		return err
	}
	return checkReached(reached, log)
}

func readReached(votes raft.StableStore) (uint64, error) {
	reached, err := votes.GetUint64(keyReached)
	if err := unlessUnset(err); err != nil {
		return 0, fmt.Errorf("read how far the log reached: %w", err)
	}
	return reached, nil
}

func checkReached(reached uint64, log raft.LogStore) error {
	last, err := log.LastIndex()
	if err != nil {
		return fmt.Errorf("find the end of the log: %w", err)
	}
	if last < reached {
		return fmt.Errorf("it ends at entry %d, and has reached entry %d before", last, reached)
	}
	return nil
}

// beginReached returns an error if the log has lost its end. It syncs the newest segment, because entries that a killed
// process has written but not synced count as written from then on.
func (s *segments) beginReached(c Config) error {
	if err := CheckReached(s.votes, s.WAL); err != nil {
		return damaged(WALPath(c.Dir), err)
	}
	err := c.do("sync what was written", func() error { return syncSegments(c) })
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	s.first.Store(true)
	return s.reach(last)
}

// wrote is called after each write, with the index of its last entry. A new segment is begun in the background, and may
// be listed before wrote is called for the write that filled the segment before. So wrote notes the index unless an
// entry of the newest segment was noted before, or the write was to an older segment.
func (s *segments) wrote(last uint64) error {
	newest := s.newest.Load()
	s.mu.Lock()
	noted := s.reached >= newest
	s.mu.Unlock()
	if s.first.Swap(false) || last >= newest && !noted {
		return s.reach(last)
	}
	return nil
}

func syncSegments(c Config) error {
	names, err := filepath.Glob(filepath.Join(WALPath(c.Dir), "*.wal")) // sorted by their entries
	if err != nil || len(names) == 0 {
		return fmt.Errorf("find the newest segment: %w", errors.Join(err, fs.ErrNotExist))
	}
	f, err := os.Open(names[len(names)-1])
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("sync the newest segment: %w", err)
	}
	return durable.SyncDir(WALPath(c.Dir))
}

// reach notes that the log has an entry. It never lowers the noted index.
func (s *segments) reach(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index <= s.reached {
		return nil
	}
	return s.setReached(index)
}

// retreat lowers the noted index before the end of the log is removed, from low to high.
func (s *segments) retreat(low, high uint64) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil || high < last {
		return err
	}
	to := low - 1
	if low <= first {
		to = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached <= to {
		return nil
	}
	return s.setReached(to)
}

func (s *segments) setReached(index uint64) error {
	if err := s.votes.SetUint64(keyReached, index); err != nil {
		return fmt.Errorf("note how far the log reaches: %w", err)
	}
	s.reached = index
	return nil
}

// listWatch is the list of segments. It stores in newest where the newest segment begins.
type listWatch struct {
	*metadb.BoltMetaDB
	newest *atomic.Uint64
}

// Load implements types.MetaStore.
func (m listWatch) Load(dir string) (types.PersistentState, error) {
	state, err := m.BoltMetaDB.Load(dir)
	m.saw(state)
	return state, err
}

// CommitState implements types.MetaStore.
func (m listWatch) CommitState(state types.PersistentState) error {
	m.saw(state)
	return m.BoltMetaDB.CommitState(state)
}

func (m listWatch) saw(state types.PersistentState) {
	if n := len(state.Segments); n > 0 {
		m.newest.Store(state.Segments[n-1].BaseIndex)
	}
}
