package store

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Latch stands between raft and its store. After the first failed write it lets
// nothing through any more: what a disk holds after a failed sync is unknown,
// also when the next sync succeeds.
type Latch struct {
	Store
	tripped func(error)

	mu     sync.Mutex
	failed error
	closed bool
}

// NewLatch returns a latch that calls tripped once, on the goroutine of the write that failed, before raft learns of it.
func NewLatch(s Store, tripped func(error)) *Latch { return &Latch{Store: s, tripped: tripped} }

// guard runs a write unless one has failed.
func (l *Latch) guard(write func() error) error {
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

func (l *Latch) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// StoreLog implements raft.LogStore.
func (l *Latch) StoreLog(entry *raft.Log) error {
	return l.guard(func() error { return l.Store.StoreLog(entry) })
}

// StoreLogs implements raft.LogStore.
func (l *Latch) StoreLogs(entries []*raft.Log) error {
	return l.guard(func() error { return l.Store.StoreLogs(entries) })
}

// DeleteRange implements raft.LogStore.
func (l *Latch) DeleteRange(low, high uint64) error {
	return l.guard(func() error { return l.Store.DeleteRange(low, high) })
}

// Set implements raft.StableStore.
func (l *Latch) Set(key, value []byte) error {
	return l.guard(func() error { return l.Store.Set(key, value) })
}

// SetUint64 implements raft.StableStore. Raft panics when it cannot write its
// term, on its own goroutine, and would take the process down before the node
// could stop in order. So after the latch fell this reports success: by then the
// links are cut, no entry can be stored, and nothing that raft concludes leaves
// the process.
func (l *Latch) SetUint64(key []byte, value uint64) error {
	_ = l.guard(func() error { return l.Store.SetUint64(key, value) })
	return nil
}

// Close closes the store once.
func (l *Latch) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	return l.Store.Close()
}
