// Package session makes an agent's decisions about its sessions with the leader: which coordinator to ask, when to give
// up a session, whether the coordinator is proven to lead, and when to send.
//
// Contract: a Search returns which coordinator to ask next, and how long to wait after a round without success. A
// Session is one accepted stream: its caller reports each message that arrives or is sent, and the Session decides what
// follows. Both are pure: no clock, no I/O, no goroutine. Times are passed in, so simulations can drive them.
//
// Guarantees: a coordinator whose term is older than one that the agent has seen gets no session. A session is proven
// by the first renewal that the leader acknowledged in it: only then does it count as open for the other nodes, and
// only then is its roster accepted. A leader that does not acknowledge renewals is given up, whatever else it sends.
//
// Not guaranteed: anything about the leases of the node; package lease decides about those.
package session

import (
	"errors"
	"fmt"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// DialTimeout limits a try to reach a coordinator or another agent.
	DialTimeout = 500 * time.Millisecond
	// WelcomeTimeout limits the time from a connection to the first answer, which comes after the node was registered in
	// the replicated state.
	WelcomeTimeout = 5 * time.Second
	// SendPause is the minimum time between two messages with reports: each one costs the cluster a commit, and a busy
	// node has many reports.
	SendPause = 15 * time.Millisecond
	// defaultHeartbeat is used if the coordinator does not set one.
	defaultHeartbeat = time.Second
	// silence is how many heartbeats may be unanswered before a session is given up, and leastPatience the minimum time
	// for that.
	silence       = 4
	leastPatience = 4 * time.Second
)

// ErrSilent means that a coordinator did not answer in time.
var ErrSilent = errors.New("the coordinator is silent")

// Session is one accepted stream.
type Session struct {
	heartbeat, patience time.Duration
	proven              bool
	beatAt              time.Time // when the next heartbeat is due
	silentAt            time.Time // when the session is given up
	reportsAt           time.Time // when reports may be sent again
	roster              *v1.Roster
}

// Welcomed starts a session. It returns an error if the coordinator must not get one.
func (s *Search) Welcomed(addr string, welcome *v1.Welcome, now time.Time) (*Session, error) {
	switch {
	case welcome == nil:
		return nil, errors.New("the coordinator did not begin with a welcome")
	case welcome.GetTerm() < s.term:
		return nil, fmt.Errorf("coordinator %s was deposed: its term is %d, and %d was seen", welcome.GetCoordinatorId(), welcome.GetTerm(), s.term)
	}
	s.term = welcome.GetTerm()
	heartbeat := time.Duration(welcome.GetHeartbeatIntervalMs()) * time.Millisecond
	if heartbeat <= 0 {
		heartbeat = defaultHeartbeat
	}
	patience := s.AnswerTime(addr, max(silence*heartbeat, leastPatience))
	// The first heartbeat is sent at once: no task is launched before its answer.
	return &Session{heartbeat: heartbeat, patience: patience, beatAt: now, silentAt: now.Add(patience), reportsAt: now}, nil
}

// BeatAt returns when the next heartbeat is due.
func (s *Session) BeatAt() time.Time { return s.beatAt }

// Beat records that a heartbeat is sent, either when it is due or earlier.
func (s *Session) Beat(now time.Time) {
	if now.Before(s.beatAt) {
		return // an extra heartbeat does not move the next one
	}
	if s.beatAt = s.beatAt.Add(s.heartbeat); !s.beatAt.After(now) {
		s.beatAt = now.Add(s.heartbeat) // missed heartbeats are not sent later
	}
}

// Acked records that the leader acknowledged a heartbeat. news is the result of the lease keeper's Acked: only an
// acknowledgement of a newer heartbeat proves that the coordinator leads. opened: the session counts as open from here
// on.
func (s *Session) Acked(news bool, now time.Time) (opened bool) {
	if !news {
		return false
	}
	s.silentAt = now.Add(s.patience)
	// Before the first acknowledgement the session counts as closed for the other agents: a coordinator whose disk
	// hangs still accepts sessions, but cannot place replacements. The agent stays bound by its answers to pings until
	// then.
	opened = !s.proven
	s.proven = true
	return opened
}

// SilentAt returns when the session is given up, unless the leader acknowledges a heartbeat before.
func (s *Session) SilentAt() time.Time { return s.silentAt }

// Roster takes a roster that the coordinator sent. A deposed coordinator could send an older roster than this node has
// acknowledged, so none is kept before the session is proven.
func (s *Session) Roster(roster *v1.Roster) { s.roster = roster }

// TakeRoster returns the roster to keep, or nil for none. It is called after each message that arrives.
func (s *Session) TakeRoster() *v1.Roster {
	if !s.proven {
		return nil
	}
	roster := s.roster
	s.roster = nil
	return roster
}

// ReportsAt returns when the next reports may be sent.
func (s *Session) ReportsAt() time.Time { return s.reportsAt }

// Reported records that reports were sent.
func (s *Session) Reported(now time.Time) { s.reportsAt = now.Add(SendPause) }
