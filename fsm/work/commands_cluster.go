package work

import (
	"github.com/mindcoordinator/mind/fsm/access"
)

// Tick lets time pass: keys expire, time limits strike, held jobs come free, drains reach their deadline, finished jobs
// beyond the bound are dropped. View.NextDue says when one is worth its while.
type Tick struct {
	// Settled: the leader's fresh period is over, so that every node that could come back has. Only then are tasks given up.
	Settled bool `cbor:"1,keyasint,omitempty"`
	// Renewing are the unreachable nodes that renew their leases through their peers: nothing on them is given up.
	Renewing []string `cbor:"2,keyasint,omitempty"`
}

// TickResult counts what a tick did. Work per tick is bounded; More says that another one should follow at once.
type TickResult struct {
	KeysExpired int
	TimeLimits  int
	Released    int
	Dropped     int
	GaveUp      int
	More        bool
}

// Configure sets what the state itself needs to know of the configuration.
type Configure struct {
	// KeepFinished bounds the finished jobs that are kept; 0: DefaultKeepFinished.
	KeepFinished uint32 `cbor:"1,keyasint,omitempty"`
	// KeepAudit bounds the audit records of each kind; 0: DefaultKeepAudit. The oldest beyond it are gone at once.
	KeepAudit uint32 `cbor:"2,keyasint,omitempty"`
}

// ConfigureResult is empty: a Configure is never refused.
type ConfigureResult struct{}

// Recover begins a new life of the state. The state is that of a snapshot, or of one replica whose peers are gone, so what
// the cluster acknowledged after it is not in it: jobs may have been placed, ended or canceled since, and nodes may run tasks
// that it has no record of.
//
// What the state knows goes on. To make sure that nothing lives twice,
//   - every node has to register again, and say what it still runs, before anything is given to it; a task that it has no
//     more has ended, nobody knows how;
//   - no job that was there before is placed until every node has done so (or was forgotten by an operator), and before its
//     own lease has run out on any node that this state has never heard of.
//
// Fencing tokens and ids are indices of the log, and so is the roster: a Recover is proposed at an index beyond
// all that the lost part of the log can have used.
type Recover struct {
	// Voters of the new life.
	Voters []string `cbor:"1,keyasint,omitempty"`
	// From says what it was recovered from.
	From  string        `cbor:"2,keyasint,omitempty"`
	Actor *access.Actor `cbor:"3,keyasint,omitempty"`
}

// RecoverResult counts what is waited for.
type RecoverResult struct {
	// Nodes have to register; Jobs are held until they have.
	Nodes, Jobs int
}

// NoteSnapshot takes down that somebody saved the whole state to a file.
type NoteSnapshot struct {
	// By is the coordinator that wrote it.
	By    string        `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// NoteSnapshotResult is empty: a NoteSnapshot is never refused.
type NoteSnapshotResult struct{}
