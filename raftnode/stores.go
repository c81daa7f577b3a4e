package raftnode

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"

	"github.com/mindcoordinator/mind/durable"
)

// lockTime bounds the wait for another process that still holds the log.
const lockTime = 10 * time.Second

// openStore opens the log and the votes. Every write is synced to disk before
// it returns; there is no option not to.
func openStore(cfg Config) (Store, error) {
	store, err := openLog(cfg)
	if err != nil {
		return nil, fmt.Errorf("open log store: %w", err)
	}
	if cfg.WrapStore != nil {
		store = cfg.WrapStore(store)
	}
	return store, nil
}

func openLog(cfg Config) (Store, error) {
	if cfg.LogStore == StoreWAL {
		dir := filepath.Join(cfg.Dir, "wal")
		if err := durable.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if err := checkWAL(dir, cfg.Logger); err != nil {
			return nil, err
		}
		return wal.Open(dir, wal.WithLogger(newBridge(cfg.Logger)))
	}
	path := filepath.Join(cfg.Dir, "raft.db")
	if err := checkBolt(path); err != nil {
		return nil, err
	}
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

// latch stands between raft and its store. After the first failed write it lets
// nothing through any more: what a disk holds after a failed sync is unknown,
// also when the next sync succeeds.
type latch struct {
	Store
	// tripped is called once, on the goroutine of the failed write, before
	// raft learns of the failure.
	tripped func(error)

	mu     sync.Mutex
	failed error
	closed bool
}

func newLatch(s Store, tripped func(error)) *latch { return &latch{Store: s, tripped: tripped} }

// guard runs a write unless one has failed.
func (l *latch) guard(write func() error) error {
	if err := l.failure(); err != nil {
		return err
	}
	err := write()
	if err == nil {
		// Another write may have failed meanwhile; then this one counts for
		// nothing either.
		return l.failure()
	}
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = fmt.Errorf("log store is closed for good after a failed write: %w", err)
	}
	failed := l.failed
	l.mu.Unlock()
	if first {
		l.tripped(err)
	}
	return failed
}

func (l *latch) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// StoreLog implements raft.LogStore.
func (l *latch) StoreLog(entry *raft.Log) error {
	return l.guard(func() error { return l.Store.StoreLog(entry) })
}

// StoreLogs implements raft.LogStore.
func (l *latch) StoreLogs(entries []*raft.Log) error {
	return l.guard(func() error { return l.Store.StoreLogs(entries) })
}

// DeleteRange implements raft.LogStore.
func (l *latch) DeleteRange(low, high uint64) error {
	return l.guard(func() error { return l.Store.DeleteRange(low, high) })
}

// Set implements raft.StableStore.
func (l *latch) Set(key, value []byte) error {
	return l.guard(func() error { return l.Store.Set(key, value) })
}

// SetUint64 implements raft.StableStore. Raft panics when it cannot write its
// term, on its own goroutine, and would take the process down before the node
// could stop in order. So after the latch fell this reports success: by then the
// links are cut, no entry can be stored, and nothing that raft concludes leaves
// the process.
func (l *latch) SetUint64(key []byte, value uint64) error {
	_ = l.guard(func() error { return l.Store.SetUint64(key, value) })
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore for stores that do.
func (l *latch) IsMonotonic() bool {
	m, ok := l.Store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// Close closes the store once.
func (l *latch) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	return l.Store.Close()
}
