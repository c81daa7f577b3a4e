// Package session is what an agent decides about its sessions with the leader: whom to ask for one, when to give one up, what
// proves that it is one, and when to send.
//
// Contract: a Search says which coordinator to ask next and how long to rest when none took the agent. A Session is one stream
// that was welcomed: it is told what arrives and what is sent, and says what follows from it. Both are pure: no clock, no I/O,
// no goroutine. Instants are handed in, so simulations can drive them.
//
// Guarantees: a coordinator of an older term than one that was seen gets no session. A session is proven by the first renewal
// that the leader acknowledged in it: only then does it count as open for the other nodes, and only then is a roster of its
// taken. A leader that does not acknowledge renewals is given up, whatever else it says.
//
// Not guaranteed: what a session means for the leases of the node; that is for package lease.
package session

import (
	"errors"
	"fmt"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// DialTimeout bounds a try to reach a coordinator or another agent.
	DialTimeout = 500 * time.Millisecond
	// WelcomeTimeout bounds the time from a connection to the first answer,
	// which comes after the node was registered in the replicated state.
	WelcomeTimeout = 5 * time.Second
	// SendPause is the least time between two messages with reports: each costs
	// the cluster a commit, and a busy node has many to make.
	SendPause = 15 * time.Millisecond
	// defaultHeartbeat is used when the coordinator names none.
	defaultHeartbeat = time.Second
	// silence is how many heartbeats may go unanswered, and leastPatience how long
	// at least.
	silence       = 4
	leastPatience = 4 * time.Second
)

// ErrSilent says that a coordinator did not answer in time.
var ErrSilent = errors.New("the coordinator is silent")

// Session is one that was welcomed.
type Session struct {
	heartbeat, patience time.Duration
	proven              bool
	beatAt              time.Time // when the next heartbeat is due
	silentAt            time.Time // when it is given up
	reportsAt           time.Time // when reports may be sent again
	roster              *v1.Roster
}

// Welcomed begins a session. The error is why there is none.
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
	// The first heartbeat is sent at once: without its answer nothing is launched.
	return &Session{heartbeat: heartbeat, patience: patience, beatAt: now, silentAt: now.Add(patience), reportsAt: now}, nil
}

// BeatAt is when the next heartbeat is due.
func (s *Session) BeatAt() time.Time { return s.beatAt }

// Beat notes that a heartbeat is sent, when it is due or before.
func (s *Session) Beat(now time.Time) {
	if now.Before(s.beatAt) {
		return // there was something to say besides
	}
	if s.beatAt = s.beatAt.Add(s.heartbeat); !s.beatAt.After(now) {
		s.beatAt = now.Add(s.heartbeat) // those that were missed are not made up for
	}
}

// Acked notes that the leader acknowledged a heartbeat. news: it was a newer one than before, by the lease keeper's books;
// nothing else proves that it leads. opened: the session counts as open from now on.
func (s *Session) Acked(news bool, now time.Time) (opened bool) {
	if !news {
		return false
	}
	s.silentAt = now.Add(s.patience)
	// Until now it was no session for the other agents: a coordinator whose disk hangs still welcomes, and can replace nothing.
	// What this one answers them it is bound by, whatever it answered.
	opened = !s.proven
	s.proven = true
	return opened
}

// SilentAt is when the session is given up, unless the leader acknowledges a heartbeat before.
func (s *Session) SilentAt() time.Time { return s.silentAt }

// Roster takes in what the coordinator sends; TakeRoster returns what is to be kept of it, nil for nothing. A coordinator that
// was deposed could send one older than what this node has acknowledged already, so none is kept before the session is proven.
func (s *Session) Roster(roster *v1.Roster) { s.roster = roster }

// TakeRoster is asked after all that arrived.
func (s *Session) TakeRoster() *v1.Roster {
	if !s.proven {
		return nil
	}
	roster := s.roster
	s.roster = nil
	return roster
}

// ReportsAt is when reports may be sent again.
func (s *Session) ReportsAt() time.Time { return s.reportsAt }

// Reported notes that reports were sent.
func (s *Session) Reported(now time.Time) { s.reportsAt = now.Add(SendPause) }
