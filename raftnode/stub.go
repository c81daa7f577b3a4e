package raftnode

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

var errStub = errors.New("not built yet")

type Node struct {
	cfg  Config
	raft *raft.Raft
}
type Applied struct {
	Result any
	Index  uint64
}
type Peer struct {
	ID     string
	Addr   string
	Voter  bool
	Leader bool
}
type Stats struct {
	State         string
	Term          uint64
	LastIndex     uint64
	CommitIndex   uint64
	AppliedIndex  uint64
	SnapshotIndex uint64
	LeaderID      string
	LeaderAddr    string
	Backlog       int
}

func Open(cfg Config, sm StateMachine) (*Node, error) { return nil, errStub }

func (n *Node) Propose(ctx context.Context, command []byte) (Applied, error) {
	return Applied{}, errStub
}

func (n *Node) ReadIndex(ctx context.Context) (index, term uint64, err error) { return 0, 0, errStub }

func (n *Node) WaitApplied(ctx context.Context, index uint64) error                 { return errStub }
func (n *Node) AppliedIndex() uint64                                                { return 0 }
func (n *Node) Leader() (id, addr string)                                           { return "", "" }
func (n *Node) IsLeader() bool                                                      { return false }
func (n *Node) LeaderChanges() (changes <-chan struct{}, stop func())               { return nil, func() {} }
func (n *Node) Lead(ctx context.Context, fn func(ctx context.Context, term uint64)) {}
func (n *Node) Peers() []Peer                                                       { return nil }
func (n *Node) AddVoter(ctx context.Context, id, addr string) error { return errStub }

func (n *Node) RemoveServer(ctx context.Context, id string) error { return errStub }

func (n *Node) Transfer(ctx context.Context, id string) error { return errStub }

func (n *Node) TakeSnapshot(ctx context.Context) error { return errStub }

func (n *Node) Stats() Stats { return Stats{} }

func (n *Node) Shutdown(ctx context.Context) error { return errStub }

// Done is closed when the node has stopped, by Shutdown or by a fault.
func (n *Node) Done() <-chan struct{} { return nil }

// Err says why, once Done is closed; nil after Shutdown.
func (n *Node) Err() error { return nil }
