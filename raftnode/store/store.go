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

// Kinds of log.
const (
	WAL  = "wal"
	Bolt = "boltdb"
)

// Store is where a node keeps its log and its votes.
type Store interface {
	raft.LogStore
	raft.StableStore
	// IsMonotonic says that the log must not have gaps.
	raft.MonotonicLogStore
	Close() error
}

// Config says what to open.
type Config struct {
	// Dir exists.
	Dir string
	// Log is WAL, which is the default, or Bolt: a log of the other kind is moved.
	Log    string
	Logger *slog.Logger

	// step is called before each thing that changes the directory, in tests. An error ends Open as a crash would.
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
	// lockTime bounds the wait for another process that still uses the directory.
	lockTime = 10 * time.Second
	// maxSegment is allocated for a segment when it is begun, less on a small disk. At the start each segment is read whole.
	maxSegment = 16 << 20
	minSegment = 256 << 10
)

// segmentSize leaves a small disk room for snapshots, and for some segments.
func segmentSize(disk uint64) int { return int(min(max(disk/64, minSegment), maxSegment)) }

// diskSize is that of the file system of a directory. When it is unknown, the disk counts as a large one.
func diskSize(dir string) uint64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Blocks == 0 {
		return 64 * maxSegment
	}
	return s.Blocks * uint64(s.Bsize)
}

// BoltPath is the file of the votes, and of a log of the kind Bolt.
func BoltPath(dir string) string { return filepath.Join(dir, "raft.db") }

// WALPath is the folder of a log of the kind WAL.
func WALPath(dir string) string { return filepath.Join(dir, "wal") }

// Open opens the log and the votes in a directory, and moves the log when it is of another kind than the one asked for.
// Every write is synced to disk before it returns; there is no option not to.
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
		// Also one that was written a moment ago: its last segment may have been full.
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

// openSegments opens a log of the kind WAL for use.
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
			// The list of free pages is not written with each commit but
			// found again at opening.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
}

func (c Config) openWAL(meta types.MetaStore, files types.SegmentFiler) (*wal.WAL, error) {
	return wal.Open(WALPath(c.Dir), wal.WithLogger(hostlog.New(c.Logger)), wal.WithMetaStore(meta), wal.WithSegmentFiler(files),
		wal.WithSegmentSize(c.segmentBytes))
}

// openUnwatched opens a log of the kind WAL to move it.
func (c Config) openUnwatched() (*wal.WAL, error) {
	return c.openWAL(&metadb.BoltMetaDB{}, segment.NewFiler(WALPath(c.Dir), walfs.New()))
}

// opened is a log and the votes, in one store or in two.
type opened struct {
	raft.LogStore
	votes *raftboltdb.BoltStore
	wal   *segments // nil: the log is with the votes
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

// lockDir keeps other processes out of a directory until the file is closed.
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

// Begin makes the store of a replica that begins in term, in a directory that has none.
func Begin(cfg Config, term uint64) error {
	s, err := Open(cfg)
	if err != nil {
		return err
	}
	return errors.Join(s.SetUint64(keyTerm, term), s.Close(), durable.SyncDir(cfg.Dir))
}
