package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/raftnode/hostlog"
)

// The kinds of log.
const (
	WAL  = "wal"
	Bolt = "boltdb"
)

// Store stores the log and the votes of a node.
type Store interface {
	raft.LogStore
	raft.StableStore
	// IsMonotonic reports whether the log must not have gaps.
	raft.MonotonicLogStore
	Close() error
}

// Config configures a store.
type Config struct {
	// Dir is the data directory, which must exist.
	Dir string
	// Log is WAL, the default, or Bolt. A log of the other kind is moved.
	Log    string
	Logger *slog.Logger

	// step is called before each change of the directory, in tests. If it returns an error, Open stops there as in a
	// crash.
	step func(what string) error
	// segmentBytes is the size of a segment, in tests.
	segmentBytes int
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.segmentBytes == 0 {
		c.segmentBytes = segmentSize(diskSize(c.Dir))
	}
	if c.step == nil {
		c.step = func(string) error { return nil }
	}
	return c
}

const (
	// lockTime limits the wait for another process that still uses the directory.
	lockTime = 10 * time.Second
	// maxSegment is the size that is allocated for a segment when it is begun; on a small disk it is less. Each start
	// reads all segments, one at a time, into memory.
	maxSegment = 16 << 20
	minSegment = 256 << 10
)

// segmentSize returns the size of a segment, which on a small disk leaves room for snapshots and other segments.
func segmentSize(disk uint64) int { return int(min(max(disk/64, minSegment), maxSegment)) }

// diskSize returns the size of the file system of a directory. If it is unknown, the disk counts as large.
func diskSize(dir string) uint64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Blocks == 0 {
		return 64 * maxSegment
	}
	return s.Blocks * uint64(s.Bsize)
}

// BoltPath returns the path of the file with the votes, and with a log of the kind Bolt.
func BoltPath(dir string) string { return filepath.Join(dir, "raft.db") }

// WALPath returns the path of the folder with a log of the kind WAL.
func WALPath(dir string) string { return filepath.Join(dir, "wal") }

// Open opens the log and the votes in a directory, and moves the log if it is not of the configured kind. Every write
// is synced to disk before it returns.
func Open(cfg Config) (Store, error) {
	cfg = cfg.withDefaults()
	if cfg.Log != "" && cfg.Log != WAL && cfg.Log != Bolt {
		return nil, fmt.Errorf("log store %q: it must be %s or %s", cfg.Log, WAL, Bolt)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s, err := openLocked(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

func openLocked(cfg Config) (*opened, error) {
	place, err := Find(cfg.Dir, "")
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, WAL)
	if err := cfg.move(place); err != nil {
		return nil, err
	}
	votes, err := openBolt(BoltPath(cfg.Dir))
	if err != nil {
		return nil, err
	}
	s := &opened{LogStore: votes, votes: votes}
	if cfg.Log == WAL {
		// A log that was just moved is checked, too, because its last segment may be full.
		if err := cfg.checkWAL(); err != nil {
			return nil, errors.Join(err, votes.Close())
		}
		if s.wal, err = cfg.openSegments(votes); err != nil {
			return nil, errors.Join(err, votes.Close())
		}
		s.LogStore = s.wal
	}
	return s, nil
}

// openSegments opens a log of the kind WAL for the replica.
func (c Config) openSegments(votes raft.StableStore) (*segments, error) {
	s := &segments{votes: votes, log: c.Logger, begin: newBeginWatch(WALPath(c.Dir))}
	var err error
	if s.WAL, err = c.openWAL(listWatch{&metadb.BoltMetaDB{}, &s.newest}, s.begin); err != nil {
		return nil, err
	}
	if err := s.beginReached(c); err != nil {
		return nil, errors.Join(err, s.WAL.Close())
	}
	return s, nil
}

func openBolt(path string) (*raftboltdb.BoltStore, error) {
	return raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout: lockTime,
			// The list of free pages is not written with each commit, but computed when the file is opened.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
}

func (c Config) openWAL(meta types.MetaStore, files types.SegmentFiler) (*wal.WAL, error) {
	return wal.Open(WALPath(c.Dir), wal.WithLogger(hostlog.New(c.Logger)), wal.WithMetaStore(meta), wal.WithSegmentFiler(files),
		wal.WithSegmentSize(c.segmentBytes))
}

// openUnwatched opens a log of the kind WAL for a move.
func (c Config) openUnwatched() (*wal.WAL, error) {
	return c.openWAL(&metadb.BoltMetaDB{}, segment.NewFiler(WALPath(c.Dir), walfs.New()))
}

// opened is the Store that Open returns: the log and the votes, in one file or in two places.
type opened struct {
	raft.LogStore
	votes *raftboltdb.BoltStore
	wal   *segments // nil: the log is in the file of the votes
	lock  *os.File
}

// IsMonotonic implements raft.MonotonicLogStore.
func (s *opened) IsMonotonic() bool { return s.wal != nil }

// Set implements raft.StableStore.
func (s *opened) Set(key, value []byte) error { return s.votes.Set(key, value) }

// Get implements raft.StableStore.
func (s *opened) Get(key []byte) ([]byte, error) { return s.votes.Get(key) }

// SetUint64 implements raft.StableStore.
func (s *opened) SetUint64(key []byte, value uint64) error { return s.votes.SetUint64(key, value) }

// GetUint64 implements raft.StableStore.
func (s *opened) GetUint64(key []byte) (uint64, error) { return s.votes.GetUint64(key) }

// Close implements Store.
func (s *opened) Close() error {
	var errs []error
	if s.wal != nil {
		errs = append(errs, s.wal.Close())
	}
	errs = append(errs, s.votes.Close())
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// lockDir locks a directory until the returned file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the log store: %w", err)
	}
	err = retryLocked(lockTime, func() error { return flock(f, unix.LOCK_EX) })
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Begin makes a store with a term in a directory without one.
func Begin(cfg Config, term uint64) error {
	s, err := Open(cfg)
	if err != nil {
		return err
	}
	return errors.Join(s.SetUint64(keyTerm, term), s.Close(), durable.SyncDir(cfg.Dir))
}
