package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// ErrNotSent matches every error of a write that was certainly not written and
// may be sent again.
var ErrNotSent = errors.New("not sent")

// ErrUnknownOutcome matches every error of a write that may have been written,
// or may yet be. Only a command that the state machine recognises as a repeat
// may be sent again.
var ErrUnknownOutcome = errors.New("outcome unknown")

// Errors of writes that were not sent. All match ErrNotSent.
var (
	ErrBacklogFull     = fmt.Errorf("%w: too many commands are waiting", ErrNotSent)
	ErrCommandTooLarge = fmt.Errorf("%w: command is too large", ErrNotSent)
	ErrStopped         = fmt.Errorf("%w: this replica has stopped", ErrNotSent)
)

// NotLeaderError says that this replica does not lead, and who does as far as
// it knows. It matches ErrNotSent.
type NotLeaderError struct {
	// LeaderID and LeaderAddr (a raft address) are empty when nobody is known
	// to lead.
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

// writeOutcome is the outcome of a write by its error from hashicorp/raft.
type writeOutcome int

const (
	outcomeUnknown writeOutcome = iota
	outcomeNotSent
	outcomeNotLeader
	outcomeStopped
)

// outcomes lists every sentinel error of hashicorp/raft, also those that a write
// cannot meet today, so that none is ever classified by accident. What is not
// in the table (an error of the log store, say) is unknown: the safe answer.
var outcomes = map[error]writeOutcome{
	// A follower or candidate hands back what it was given, untouched.
	raft.ErrNotLeader: outcomeNotLeader,
	// The leader hands back what it was given before it touched its log.
	raft.ErrLeadershipTransferInProgress: outcomeNotSent,
	// The command never entered raft's queue.
	raft.ErrEnqueueTimeout: outcomeNotSent,
	// The entry is in the old leader's log, and may be in the next one's.
	raft.ErrLeadershipLost: outcomeUnknown,
	// The log was replaced while the entry was in flight.
	raft.ErrAbortedByRestore: outcomeUnknown,
	// Raft stopped while it had the entry, or before: it does not say which.
	raft.ErrRaftShutdown: outcomeStopped,

	// About membership, bootstrap and snapshots: refused before the log.
	raft.ErrLeader:               outcomeNotSent,
	raft.ErrNotVoter:             outcomeNotSent,
	raft.ErrCantBootstrap:        outcomeNotSent,
	raft.ErrNothingNewToSnapshot: outcomeNotSent,
	raft.ErrUnsupportedProtocol:  outcomeNotSent,

	// Of links and log stores: they say nothing about the entry.
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

// writeError turns an error of a write that raft was given into the error of
// the caller.
func (n *Node) writeError(err error) error {
	switch classify(err) {
	case outcomeNotLeader:
		return n.notLeader()
	case outcomeNotSent:
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	default:
		// Stopped counts as unknown here: raft had the entry.
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
}

func (n *Node) notLeader() error {
	id, addr := n.Leader()
	if id == n.cfg.ID {
		// Raft still names this replica for a moment after it stepped down;
		// sending the caller back here would be a loop.
		id, addr = "", ""
	}
	return &NotLeaderError{LeaderID: id, LeaderAddr: addr}
}
