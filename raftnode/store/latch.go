package store

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Latch is a Store that refuses all writes after the first failed one: after a failed sync the content of a disk is
// unknown, even if the next sync succeeds.
type Latch struct {
	Store
	tripped func(error)

	mu     sync.Mutex
	failed error
	closed bool
}

// NewLatch returns a latch that calls tripped once, on the goroutine of the failed write and before raft gets its
// error.
func NewLatch(s Store, tripped func(error)) *Latch { return &Latch{Store: s, tripped: tripped} }

// guard runs a write, unless an earlier one has failed.
func (l *Latch) guard(write func() error) error {
	if err := l.failure(); err != nil {
		return err
	}
	err := write()
	if err == nil {
		// If another write has failed meanwhile, this one counts as failed, too.
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

// SetUint64 implements raft.StableStore. It never returns an error: raft would panic on its own goroutine if it could
// not write its term, and end the process before the node has stopped in order. This is safe, because after a failed
// write the links are closed and no entry can be stored, so no decision of raft leaves the process.
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
