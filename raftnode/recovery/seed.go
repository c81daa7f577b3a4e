package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/raftnode/hostlog"
	"github.com/mindcoordinator/mind/raftnode/machine"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// A life of a cluster begins with its first entry or a recovery, and ends with the loss of its quorum. Indices are
// fencing tokens and parts of ids, and from terms agents learn which of two leaders is newer, so no two lives may use
// the same ones. A new life begins beyond all that an earlier life can have reached: with the seconds since 1970 as its
// term, and 1<<lifeShift times that as its index. (On average an earlier life had less than one election and less than
// 16,384 entries a second.)
const lifeShift = 14

// nextLife returns the first index and term of a life after one that reached an index and a term.
func nextLife(index, term uint64, now time.Time) (uint64, uint64) {
	seconds := uint64(max(now.Unix(), 0))
	return max(index+1, seconds<<lifeShift), max(term+1, seconds)
}

// seed is the data of a replica at the beginning of a life.
type seed struct {
	logStore    string
	index, term uint64
	voters      []Server
	machine     *machine.Machine
}

// write writes the data to a new directory. All of it is on disk when write returns.
func (s *seed) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := store.Begin(store.Config{Dir: dir, Log: s.logStore}, s.term); err != nil {
		return fmt.Errorf("make the log store: %w", err)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(dir, "snapshots"), 1, hostlog.New(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("make the snapshot store: %w", err)
	}
	var configuration raft.Configuration
	for _, v := range s.voters {
		configuration.Servers = append(configuration.Servers, raft.Server{ID: raft.ServerID(v.ID), Address: raft.ServerAddress(v.Addr)})
	}
	_, nowhere := raft.NewInmemTransport("")
	sink, err := snapshots.Create(raft.SnapshotVersionMax, s.index, s.term, configuration, s.index, nowhere)
	if err != nil {
		return fmt.Errorf("make a snapshot: %w", err)
	}
	state, err := s.machine.Snapshot()
	if err != nil {
		_ = sink.Cancel()
		return err
	}
	defer state.Release()
	if err := state.Persist(sink); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// put writes the data to dir, which must not exist.
func (s *seed) put(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already (%w)", dir, errors.Join(err, fs.ErrExist))
	}
	aside := dir + ".new"
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := s.write(aside); err != nil {
		return err
	}
	return durable.RenameTree(aside, dir)
}
