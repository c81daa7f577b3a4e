package recovery

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/raftnode/recovery"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// This file works on the data of stopped coordinators, for when the quorum is permanently lost.

func newReplayed() verify.Replay { return replayed{replica.Hosted{Machine: fsm.New()}} }

// Begun describes the first state of a recovered or restored cluster.
type Begun struct {
	Voters []string `json:"voters"`
	Index  uint64   `json:"index"`
	Term   uint64   `json:"term"`
	Hash   string   `json:"hash"`
	// Nodes must register and report their tasks, and Jobs are held until they have.
	Nodes int `json:"nodes_to_register"`
	Jobs  int `json:"jobs_held"`
}

func begun(life recovery.Life, voters []recovery.Server) Begun {
	b := Begun{Index: life.Index, Term: life.Term, Hash: life.Hash}
	for _, v := range voters {
		b.Voters = append(b.Voters, v.ID)
	}
	if res, ok := life.Result.(clusterverbs.RecoverResult); ok {
		b.Nodes, b.Jobs = res.Nodes, res.Jobs
	}
	return b
}

// beginWith returns a function that makes the first entry of a new life. The entry has the newest level, because all
// coordinators of the new life run this version of mind or a newer one.
func beginWith(voters []recovery.Server, from, who string) func() []byte {
	return func() []byte {
		var ids []string
		for _, v := range voters {
			ids = append(ids, v.ID)
		}
		data, err := kernel.Encode(level.Supported().Newest, clusterverbs.Recover{Voters: ids, From: from, Actor: &access.Actor{User: who}})
		if err != nil {
			panic(fmt.Sprintf("encoding a recovery: %v", err)) // All of its values can be encoded.
		}
		return kernel.Pack(level.Supported().Newest, time.Now(), [][]byte{data})
	}
}

// Recovery describes what Recover did.
type Recovery struct {
	Begun
	// From is the end of the log from which the cluster was recovered.
	From verify.StateReport `json:"from"`
	// Kept is the path of the old data.
	Kept string `json:"kept"`
}

// Recover prepares the data directory of one stopped coordinator, so that a cluster starts again from it. The caller
// knows that the previous voters that are not among the new ones will never run again with their data. The last
// argument is the actor in the audit log.
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
