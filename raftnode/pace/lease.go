package pace

import (
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/raft"
)

// LeaderTimes changes times of a leader that raft reads again each time it needs them, but does not let callers change:
// the lease, which is how long the leader leads without answers of a majority, the time that a transfer of leadership
// may take, and the commit timeout. Raft refuses a lease that is longer than the heartbeat timeout, because it expects
// that all replicas have the same heartbeat timeout. Here they differ: a leader must send heartbeats often enough for
// followers with a short timeout, and lead as long as followers with a long timeout would wait for it.
//
// So LeaderTimes writes to the atomic.Value in which raft keeps its raft.Config. No guarantee of Mind depends on the
// lease of a leader: reads and renewals count the answers of a majority (see read.go). Raft uses it only to make a
// leader without a majority step down.
type LeaderTimes struct{ conf *atomic.Value }

// confField is the field in which raft keeps its configuration. If a version of raft keeps it elsewhere, LeaderTimes
// has no effect, and TestLeaderTimes fails.
var confField, confFound = reflect.TypeFor[raft.Raft]().FieldByName("conf")

// TimesOf returns the LeaderTimes of a replica.
func TimesOf(r *raft.Raft) LeaderTimes {
	if !confFound || confField.Type != reflect.TypeFor[atomic.Value]() {
		return LeaderTimes{}
	}
	return LeaderTimes{(*atomic.Value)(unsafe.Add(unsafe.Pointer(r), confField.Offset))}
}

// Set sets the lease and the election timeout. It may be called at any time, but not concurrently with ReloadConfig or
// SetCommit.
func (l LeaderTimes) Set(lease, election time.Duration) {
	if l.conf == nil {
		return
	}
	if c, ok := l.conf.Load().(raft.Config); ok {
		c.LeaderLeaseTimeout, c.ElectionTimeout = lease, election
		l.conf.Store(c)
	}
}

// SetCommit sets how long after the last entry followers learn that it is committed. The leader sends each of them an
// empty message at this interval, for ever. It may be called at any time, but not concurrently with ReloadConfig or
// Set.
func (l LeaderTimes) SetCommit(d time.Duration) {
	if l.conf == nil {
		return
	}
	if c, ok := l.conf.Load().(raft.Config); ok {
		c.CommitTimeout = d
		l.conf.Store(c)
	}
}
