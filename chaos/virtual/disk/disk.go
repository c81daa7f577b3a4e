package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode"
)

// Disk holds one replica's log, votes and snapshots. It outlives the processes that use it, one after another.
type Disk struct {
	mu        sync.Mutex
	rand      *rand.Rand
	logs      map[uint64]raft.Log
	low, high uint64
	bytes     map[string][]byte
	numbers   map[string]uint64
	snapshots []*snapshot // newest first
	owner     *Mount

	// sync is how long a write takes; broken makes writes fail.
	sync   time.Duration
	broken bool
	writes int
	// A forgetful disk acknowledges writes that are not durable: at a crash it returns to the state of some writes ago.
	forgetful bool
	synced    *Disk
}

// forget limits how many writes a forgetful disk loses.
const forget = 50

// copy returns a copy of the present contents.
func (d *Disk) copy() *Disk {
	return &Disk{
		logs: maps.Clone(d.logs), low: d.low, high: d.high, bytes: maps.Clone(d.bytes), numbers: maps.Clone(d.numbers),
		snapshots: slices.Clone(d.snapshots),
	}
}

// New returns an empty disk. A forgetful disk loses acknowledged writes at a crash.
func New(seed uint64, forgetful bool) *Disk {
	return &Disk{forgetful: forgetful, rand: rand.New(rand.NewPCG(seed, 2)), logs: map[uint64]raft.Log{}, bytes: map[string][]byte{}, numbers: map[string]uint64{}}
}

// Slow sets how long each write takes.
func (d *Disk) Slow(sync time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sync = sync
}

// Break sets whether writes fail.
func (d *Disk) Break(broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

// Mount gives the disk to a process and takes it from the one before.
func (d *Disk) Mount() *Mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owner = &Mount{disk: d}
	return d.owner
}

// Unmount takes the disk from a crashed process: its later writes have no effect.
func (d *Disk) Unmount() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owner = nil
	if s := d.synced; s != nil {
		d.logs, d.low, d.high, d.bytes, d.numbers, d.snapshots = s.logs, s.low, s.high, s.bytes, s.numbers, s.snapshots
		d.synced = d.copy()
	}
}

var (
	errNotMounted = errors.New("the disk is gone")
	errBroken     = errors.New("the disk failed")
	errNotFound   = errors.New("not found") // raft recognizes it by its text
)

// Mount is a disk for one process. It implements raftnode.Store and raft.SnapshotStore.
type Mount struct{ disk *Disk }

var _ raftnode.Store = (*Mount)(nil)

func (m *Mount) read(f func(d *Disk) error) error {
	d := m.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner != m {
		return errNotMounted
	}
	return f(d)
}

// write makes a write. It waits for the disk without the lock, so that others can read meanwhile. If the process
// crashes meanwhile, chance decides whether the write happens; its caller got no answer.
func (m *Mount) write(f func(d *Disk)) error {
	d := m.disk
	d.mu.Lock()
	wait := d.sync
	if d.forgetful && d.writes%forget == 0 {
		d.synced = d.copy()
	}
	d.writes++
	early := wait > 0 && d.rand.IntN(2) == 0 && d.owner == m && !d.broken
	if early {
		f(d)
	}
	d.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.owner != m:
		return errNotMounted
	case d.broken:
		if d.rand.IntN(2) == 0 && !early {
			f(d) // after a failed sync the write may be on the disk or not
		}
		return errBroken
	}
	if !early {
		f(d)
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore.
func (m *Mount) IsMonotonic() bool { return false }

// FirstIndex implements raft.LogStore.
func (m *Mount) FirstIndex() (i uint64, err error) {
	err = m.read(func(d *Disk) error { i = d.low; return nil })
	return i, err
}

// LastIndex implements raft.LogStore.
func (m *Mount) LastIndex() (i uint64, err error) {
	err = m.read(func(d *Disk) error { i = d.high; return nil })
	return i, err
}

// GetLog implements raft.LogStore.
func (m *Mount) GetLog(index uint64, log *raft.Log) error {
	return m.read(func(d *Disk) error {
		l, ok := d.logs[index]
		if !ok {
			return raft.ErrLogNotFound
		}
		*log = l
		return nil
	})
}

// StoreLog implements raft.LogStore.
func (m *Mount) StoreLog(log *raft.Log) error { return m.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (m *Mount) StoreLogs(logs []*raft.Log) error {
	return m.write(func(d *Disk) {
		for _, l := range logs {
			d.logs[l.Index] = *l
			if d.low == 0 {
				d.low = l.Index
			}
			d.high = max(d.high, l.Index)
		}
	})
}

// DeleteRange implements raft.LogStore.
func (m *Mount) DeleteRange(low, high uint64) error {
	return m.write(func(d *Disk) {
		for i := low; i <= high; i++ {
			delete(d.logs, i)
		}
		if low <= d.low {
			d.low = high + 1
		}
		if high >= d.high {
			d.high = low - 1
		}
		if d.low > d.high {
			d.low, d.high = 0, 0
		}
	})
}

// Set implements raft.StableStore.
func (m *Mount) Set(key, value []byte) error {
	return m.write(func(d *Disk) { d.bytes[string(key)] = slices.Clone(value) })
}

// Get implements raft.StableStore.
func (m *Mount) Get(key []byte) (value []byte, err error) {
	err = m.read(func(d *Disk) error {
		v, ok := d.bytes[string(key)]
		if !ok {
			return errNotFound
		}
		value = slices.Clone(v)
		return nil
	})
	return value, err
}

// SetUint64 implements raft.StableStore.
func (m *Mount) SetUint64(key []byte, value uint64) error {
	return m.write(func(d *Disk) { d.numbers[string(key)] = value })
}

// GetUint64 implements raft.StableStore.
func (m *Mount) GetUint64(key []byte) (value uint64, err error) {
	err = m.read(func(d *Disk) error { value = d.numbers[string(key)]; return nil })
	return value, err
}

// Close implements io.Closer.
func (m *Mount) Close() error { return nil }

// snapshot is a snapshot on disk. It is not visible before it is complete.
type snapshot struct {
	meta raft.SnapshotMeta
	data []byte
}

// snapshotsKept counts the newest snapshot and one to fall back on.
const snapshotsKept = 2

// Create implements raft.SnapshotStore.
func (m *Mount) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{mount: m, snapshot: &snapshot{meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixNano()), Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}}, nil
}

// List implements raft.SnapshotStore.
func (m *Mount) List() (all []*raft.SnapshotMeta, err error) {
	err = m.read(func(d *Disk) error {
		for _, s := range d.snapshots {
			meta := s.meta
			all = append(all, &meta)
		}
		return nil
	})
	return all, err
}

// Open implements raft.SnapshotStore.
func (m *Mount) Open(id string) (meta *raft.SnapshotMeta, r io.ReadCloser, err error) {
	err = m.read(func(d *Disk) error {
		for _, s := range d.snapshots {
			if s.meta.ID == id {
				found := s.meta
				meta, r = &found, io.NopCloser(bytes.NewReader(s.data))
				return nil
			}
		}
		return errNotFound
	})
	return meta, r, err
}

// sink writes a snapshot.
type sink struct {
	mount    *Mount
	snapshot *snapshot
	over     bool
}

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.snapshot.meta.ID }

// Write implements io.Writer.
func (s *sink) Write(b []byte) (int, error) {
	s.snapshot.data = append(s.snapshot.data, b...)
	return len(b), nil
}

// Cancel implements raft.SnapshotSink.
func (s *sink) Cancel() error {
	s.over = true
	return nil
}

// Close implements io.Closer. It makes the snapshot visible.
func (s *sink) Close() error {
	if s.over {
		return nil
	}
	s.over = true
	s.snapshot.meta.Size = int64(len(s.snapshot.data))
	return s.mount.write(func(d *Disk) {
		if slices.ContainsFunc(d.snapshots, func(o *snapshot) bool { return o == s.snapshot }) {
			return
		}
		d.snapshots = append([]*snapshot{s.snapshot}, d.snapshots...)
		slices.SortStableFunc(d.snapshots, func(a, b *snapshot) int {
			if a.meta.Term != b.meta.Term {
				return int(int64(b.meta.Term) - int64(a.meta.Term))
			}
			return int(int64(b.meta.Index) - int64(a.meta.Index))
		})
		d.snapshots = d.snapshots[:min(len(d.snapshots), snapshotsKept)]
	})
}
