package coordinator

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
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode/recovery"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// What follows works on the data of coordinators that do not run, and is for when the quorum is gone.

func newReplayed() verify.Replay { return replayed{hosted{Machine: fsm.New()}} }

// Begun is how a new life of a cluster begins.
type Begun struct {
	Voters []string `json:"voters"`
	Index  uint64   `json:"index"`
	Term   uint64   `json:"term"`
	Hash   string   `json:"hash"`
	// Nodes have to register and say what they run, and Jobs are held until they have.
	Nodes int `json:"nodes_to_register"`
	Jobs  int `json:"jobs_held"`
}

func begun(life recovery.Life, voters []recovery.Server) Begun {
	b := Begun{Index: life.Index, Term: life.Term, Hash: life.Hash}
	for _, v := range voters {
		b.Voters = append(b.Voters, v.ID)
	}
	if res, ok := life.Result.(fsm.RecoverResult); ok {
		b.Nodes, b.Jobs = res.Nodes, res.Jobs
	}
	return b
}

// beginWith makes the first entry of a new life.
func beginWith(voters []recovery.Server, from, who string) func() []byte {
	return func() []byte {
		var ids []string
		for _, v := range voters {
			ids = append(ids, v.ID)
		}
		data, err := fsm.Encode(fsm.Recover{Voters: ids, From: from, Actor: &fsm.Actor{User: who}})
		if err != nil {
			panic(fmt.Sprintf("encoding a recovery: %v", err)) // It holds nothing that cannot be encoded.
		}
		return fsm.Pack(time.Now(), [][]byte{data})
	}
}

// Recovery is what Recover did.
type Recovery struct {
	Begun
	// From is the end of the log that it was recovered from.
	From verify.StateReport `json:"from"`
	// Kept is where the data lies as it was.
	Kept string `json:"kept"`
}

// Recover begins a new life of a cluster from the data directory of one coordinator that does not run. The caller knows that
// the voters of before that are not among the new ones will never run again with their data. who is for the audit log.
func Recover(ctx context.Context, dataDir, logStore string, voters []recovery.Server, who string) (*Recovery, error) {
	done, err := recovery.Recover(ctx, recovery.Config{
		Dir: filepath.Join(dataDir, "raft"), LogStore: logStore, New: newReplayed, Voters: voters,
		Begin: beginWith(voters, "the log of "+dataDir, who),
	})
	if err != nil {
		return nil, err
	}
	return &Recovery{Begun: begun(done.Life, voters), From: done.Before.State, Kept: done.Kept}, nil
}

// SavedState is what a saved state has.
type SavedState struct {
	recovery.Saved
	Nodes        int            `json:"nodes"`
	Jobs         map[string]int `json:"jobs"`
	Queues       int            `json:"queues"`
	Tokens       int            `json:"tokens"`
	Coordinators int            `json:"coordinators"`
	// Broken lists the invariants that do not hold.
	Broken []string `json:"broken"`
}

// Inspect reads a saved state whole, and verifies it.
func Inspect(file string) (*SavedState, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	machine := fsm.New()
	about, err := recovery.Load(f, hosted{Machine: machine})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	v := machine.View()
	out := &SavedState{Saved: about, Nodes: v.NodeCount(), Jobs: map[string]int{}, Broken: fsm.Check(v)}
	if got := hashText(v.Hash()); got != about.Hash {
		out.Broken = append(out.Broken, fmt.Sprintf("the state has the hash %s and should have %s", got, about.Hash))
	}
	for state, n := range v.Counts() {
		if n > 0 {
			out.Jobs[v1.JobState_Value(state).String()] = n
		}
	}
	for range v.Queues() {
		out.Queues++
	}
	for range v.Coordinators() {
		out.Coordinators++
	}
	out.Tokens = v.TokenCount()
	return out, nil
}

// restoreFile lies in the data directory of a coordinator that is to begin from it.
const restoreFile = "restore.snapshot"

// PrepareRestore has the coordinator of a data directory without data begin a new cluster from a saved state at its next
// start, with itself as the only voter.
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
	return about, copyDurably(file, filepath.Join(dataDir, restoreFile))
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

// restoreWait is how long a coordinator that is to begin from a saved state waits for the others of its list: one of them may
// have begun already.
const restoreWait = 3 * time.Second

// restorePending begins from a saved state, if one lies ready. When several coordinators of a list have one, the first of the
// list begins, and the others join it.
func (s *server) restorePending(ctx context.Context) error {
	file, dir := filepath.Join(s.config.DataDir, restoreFile), filepath.Join(s.config.DataDir, "raft")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(dir); err == nil {
		s.log.Info("a saved state has been restored already", "file", file)
		return os.Remove(file)
	}
	s.beginning.state.Store(int32(v1.ReplicaState_RESTORING))
	defer s.beginning.over()
	begin, err := s.mayRestore(ctx)
	if err != nil {
		return err
	}
	if !begin {
		s.log.Warn("another coordinator of the list has begun a cluster: the saved state is not used", "file", file+".unused")
		return durable.Rename(file, file+".unused")
	}
	self := []recovery.Server{{ID: s.config.ID, Addr: s.self().RaftAddr}}
	about, life, err := recovery.Restore(file, recovery.Config{
		Dir: dir, LogStore: s.config.LogStore, New: newReplayed, Voters: self, Begin: beginWith(self, "a snapshot", s.config.ID),
	})
	if err != nil {
		return fmt.Errorf("restoring %s: %w", file, err)
	}
	b := begun(life, self)
	s.log.Info("a new cluster begins from a saved state", "saved_by", about.By, "saved_at", about.At, "saved_index", about.Index,
		"index", b.Index, "nodes_to_register", b.Nodes, "jobs_held", b.Jobs)
	return os.Remove(file)
}

// mayRestore says whether this coordinator is the one that begins.
func (s *server) mayRestore(ctx context.Context) (bool, error) {
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
			why := fmt.Sprintf("%s begins from a saved state, too, and comes first in the list", before)
			s.beginning.waits.Store(&why)
		}
		wait.For(ctx, firstStartPace)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}

// listedBefore says whether another coordinator comes before this one in the list of the initial voters.
func (s *server) listedBefore(id string) bool {
	for _, p := range s.config.Peers {
		if p.ID == s.config.ID {
			return false
		}
		if p.ID == id {
			return true
		}
	}
	return false
}
