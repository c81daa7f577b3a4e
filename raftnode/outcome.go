package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// ErrNotSent matches every error of a write that certainly was not and will not be written, and may be sent again.
var ErrNotSent = errors.New("not sent")

// ErrUnknownOutcome matches every error of a write that may have been or may yet be written. It may be sent again only
// if the state machine recognises repeated commands.
var ErrUnknownOutcome = errors.New("outcome unknown")

// Errors of writes that were not sent. All match ErrNotSent.
var (
	ErrBacklogFull     = fmt.Errorf("%w: too many commands are waiting", ErrNotSent)
	ErrCommandTooLarge = fmt.Errorf("%w: command is too large", ErrNotSent)
	ErrStopped         = fmt.Errorf("%w: this replica has stopped", ErrNotSent)
)

// NotLeaderError says that this replica does not lead, and names the leader that it knows. It matches ErrNotSent.
type NotLeaderError struct {
	// LeaderID and LeaderAddr (a raft address) are empty if no leader is known.
	LeaderID   string
	LeaderAddr string
}

func (e *NotLeaderError) Error() string {
	if e.LeaderID == "" {
		return "not the leader, and no leader is known"
	}
	return "not the leader: " + e.LeaderID + " is, at " + e.LeaderAddr
}

// Is makes the error match ErrNotSent.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotSent }

// writeOutcome is the outcome of a write that failed with an error of hashicorp/raft.
type writeOutcome int

const (
	outcomeUnknown writeOutcome = iota
	outcomeNotSent
	outcomeNotLeader
	outcomeStopped
)

// outcomes has every sentinel error of hashicorp/raft, including those that no write returns today, so that each is
// classified on purpose. The outcome of an error that is not in the table, such as one of the log store, is unknown,
// which is safe.
var outcomes = map[error]writeOutcome{
	// A follower or candidate refuses the entry.
	raft.ErrNotLeader: outcomeNotLeader,
	// The leader refuses the entry before it writes to its log.
	raft.ErrLeadershipTransferInProgress: outcomeNotSent,
	// The command never entered raft's queue.
	raft.ErrEnqueueTimeout: outcomeNotSent,
	// The entry is in the old leader's log, and may be in the next one's.
	raft.ErrLeadershipLost: outcomeUnknown,
	// The log was replaced while the entry was in flight.
	raft.ErrAbortedByRestore: outcomeUnknown,
	// Raft stopped before or after it received the entry.
	raft.ErrRaftShutdown: outcomeStopped,

	// These are about membership, bootstrap and snapshots. Raft refuses before it writes to its log.
	raft.ErrLeader:               outcomeNotSent,
	raft.ErrNotVoter:             outcomeNotSent,
	raft.ErrCantBootstrap:        outcomeNotSent,
	raft.ErrNothingNewToSnapshot: outcomeNotSent,
	raft.ErrUnsupportedProtocol:  outcomeNotSent,

	// These are errors of links and log stores, which say nothing about the entry.
	raft.ErrTransportShutdown:               outcomeUnknown,
	raft.ErrPipelineShutdown:                outcomeUnknown,
	raft.ErrPipelineReplicationNotSupported: outcomeUnknown,
	raft.ErrLogNotFound:                     outcomeUnknown,
}

func classify(err error) writeOutcome {
	for sentinel, v := range outcomes {
		if errors.Is(err, sentinel) {
			return v
		}
	}
	return outcomeUnknown
}

// writeError returns the error for the caller of a write that failed in raft.
func (n *Node) writeError(err error) error {
	switch classify(err) {
	case outcomeNotLeader:
		return n.notLeader()
	case outcomeNotSent:
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	default:
		// outcomeStopped counts as unknown, because raft may have received the entry.
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
}

func (n *Node) notLeader() error {
	id, addr := n.Leader()
	if id == n.cfg.ID {
		// For a moment after this replica stepped down raft still names it as the leader, and the caller would try it
		// again and again.
		id, addr = "", ""
	}
	return &NotLeaderError{LeaderID: id, LeaderAddr: addr}
}
