package pace

import (
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/raft"
)

// LeaderTimes are the times of a leader that raft reads again each time it needs
// them, and lets nobody change, at least not to these: how long the leader goes
// on without hearing from a majority, its lease, and how long handing over may
// take. Raft refuses a lease that is longer than the heartbeat timeout. That is
// a rule for a cluster with one heartbeat timeout. Ours must speak as often as
// followers with a short one need it, and go on as long as those with a long one
// would follow.
//
// So this writes into raft's configuration, where raft writes itself: an
// atomic.Value with a raft.Config. No promise of ours rests on a leader's lease:
// reads and renewals count the answers of a majority (see read.go). Raft only uses
// it to end a term that has lost its majority.
type LeaderTimes struct{ conf *atomic.Value }

// confField is where raft keeps its configuration. A raft that keeps it elsewhere
// leaves leaders the lease that they started with; TestLeaderTimes notices.
var confField, confFound = reflect.TypeFor[raft.Raft]().FieldByName("conf")

// TimesOf returns those of a replica.
func TimesOf(r *raft.Raft) LeaderTimes {
	if !confFound || confField.Type != reflect.TypeFor[atomic.Value]() {
		return LeaderTimes{}
	}
	return LeaderTimes{(*atomic.Value)(unsafe.Add(unsafe.Pointer(r), confField.Offset))}
}

// Set may run at any time, but not beside ReloadConfig or SetCommit.
func (l LeaderTimes) Set(lease, election time.Duration) {
	if l.conf == nil {
		return
	}
	if c, ok := l.conf.Load().(raft.Config); ok {
		c.LeaderLeaseTimeout, c.ElectionTimeout = lease, election
		l.conf.Store(c)
	}
}

// SetCommit changes how long after the last entry followers learn that it is committed. A leader sends an empty message to
// each of them at this pace, for ever. It may run at any time, but not beside ReloadConfig or Set.
func (l LeaderTimes) SetCommit(d time.Duration) {
	if l.conf == nil {
		return
	}
	if c, ok := l.conf.Load().(raft.Config); ok {
		c.CommitTimeout = d
		l.conf.Store(c)
	}
}
