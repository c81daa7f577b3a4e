package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/raftnode/recovery"
)

// RestoreFile is the name of a saved state in a data directory, from which the coordinator will start.
const RestoreFile = "restore.snapshot"

// PrepareRestore prepares a data directory without data, so that its coordinator forms a new cluster from a saved state at
// its next start, as the only voter.
func PrepareRestore(file, dataDir string) (*SavedState, error) {
	about, err := Inspect(file)
	if err != nil {
		return nil, err
	}
	if len(about.Broken) > 0 {
		return nil, fmt.Errorf("%s: an invariant is broken: %s", file, about.Broken[0])
	}
	if _, err := os.Stat(filepath.Join(dataDir, "raft")); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds the data of a coordinator: restore into an empty data directory (move the old one aside)", dataDir)
	}
	if err := durable.MkdirAll(dataDir, 0o700); err != nil {
		return nil, err
	}
	there, err := os.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	for _, e := range there {
		if e.Name() != "lost+found" {
			return nil, fmt.Errorf("%s is not empty (it has %s): restore into an empty data directory", dataDir, e.Name())
		}
	}
	return about, copyDurably(file, filepath.Join(dataDir, RestoreFile))
}

func copyDurably(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := durable.Create(to, 0o600)
	if err != nil {
		return err
	}
	defer out.Discard()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Commit()
}

// restoreWait is how long a coordinator that starts from a saved state waits for the others of its list: one of them may
// have started already.
const restoreWait = 3 * time.Second

// RestorePending starts from a saved state, if the data directory has one. If several coordinators of a list have one,
// the first of the list starts, and the others join it.
func (s *Service) RestorePending(ctx context.Context) error {
	file, dir := filepath.Join(s.dataDir, RestoreFile), filepath.Join(s.dataDir, "raft")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(dir); err == nil {
		s.log.Info("the saved state was restored earlier", "file", file)
		return os.Remove(file)
	}
	s.beginning.state.Store(int32(v1.ReplicaState_RESTORING))
	defer s.beginning.over()
	begin, err := s.mayRestore(ctx)
	if err != nil {
		return err
	}
	if !begin {
		s.log.Warn("another coordinator of the list has formed a cluster: the saved state is not used", "file", file+".unused")
		return durable.Rename(file, file+".unused")
	}
	self := []recovery.Server{{ID: s.replica.ID(), Addr: s.raftAddr}}
	about, life, err := recovery.Restore(file, recovery.Config{
		Dir: dir, LogStore: s.logStore, New: newReplayed, Voters: self, Begin: beginWith(self, "a snapshot", s.replica.ID()),
	})
	if err != nil {
		return fmt.Errorf("restoring %s: %w", file, err)
	}
	b := begun(life, self)
	s.log.Info("a new cluster begins from a saved state", "saved_by", about.By, "saved_at", about.At, "saved_index", about.Index,
		"index", b.Index, "nodes_to_register", b.Nodes, "jobs_held", b.Jobs)
	return os.Remove(file)
}

// mayRestore reports whether this coordinator is the one that starts.
func (s *Service) mayRestore(ctx context.Context) (bool, error) {
	f, addrs := s.newFirstStart()
	for giveUp := time.Now().Add(restoreWait); ; {
		s.describeAll(ctx, f, addrs)
		silent, before := 0, ""
		for _, id := range f.others {
			switch answer := f.answers[id]; {
			case answer == nil:
				silent++
			case answer.GetState() == v1.ReplicaState_USED || answer.GetState() == v1.ReplicaState_FRESH:
				return false, nil
			case answer.GetState() == v1.ReplicaState_RESTORING && s.listedBefore(id):
				before = id
			}
		}
		if before == "" && (silent == 0 || time.Now().After(giveUp)) {
			return true, nil
		}
		if before != "" {
			why := fmt.Sprintf("%s starts from a saved state, too, and is earlier in the list", before)
			s.beginning.waits.Store(&why)
		}
		wait.For(ctx, firstStartPace)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}

// listedBefore reports whether another coordinator is before this one in the list of the initial voters.
func (s *Service) listedBefore(id string) bool {
	for _, p := range s.listed {
		if p.ID == s.replica.ID() {
			return false
		}
		if p.ID == id {
			return true
		}
	}
	return false
}
