package session

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	retryMin = 20 * time.Millisecond
	// retryLost is the longest pause while the session has been lost for less than lostFor: an election is probably in
	// progress. An election that takes longer does not get shorter if agents ask more often.
	retryLost = 200 * time.Millisecond
	lostFor   = 5 * time.Second
	retryMax  = 2 * time.Second
	// brief is how long a session must last to count as good. After a shorter one, the agent waits before the next: a
	// leader that is handing over accepts sessions, and ends them at the first report.
	brief = time.Second
	// complainAfter is how long an agent is without a session before it logs the reason, and complainPace how often it
	// repeats that.
	complainAfter = 10 * time.Second
	complainPace  = time.Minute
)

// Search looks for the leader. In each round every coordinator is asked once, the most likely leader first.
type Search struct {
	coordinators []string
	shuffle      func(n int, swap func(i, j int))
	slack        map[string]time.Duration // by address; a factor above 1

	preferred string
	term      uint64 // the newest term that accepted the agent
	pause     time.Duration
	lostAt    time.Time

	// The fields below belong to the current round.
	next   []string
	tried  map[string]bool
	hinted bool
	held   bool
	took   time.Duration // how long the session lasted

	// out is since when there is no session, why the last error, and told when it was last logged.
	out, told time.Time
	why       error
}

// NewSearch returns a search among coordinators. shuffle is rand.Shuffle, or the Shuffle of a seeded source.
func NewSearch(coordinators []string, shuffle func(n int, swap func(i, j int))) *Search {
	if shuffle == nil {
		shuffle = rand.Shuffle
	}
	return &Search{
		coordinators: coordinators, shuffle: shuffle, slack: make(map[string]time.Duration), pause: retryMin,
	}
}

// Begin starts a round.
func (s *Search) Begin() {
	list := slices.Clone(s.coordinators)
	s.shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if s.preferred != "" {
		list = append([]string{s.preferred}, list...)
	}
	s.sort(list)
	s.next, s.tried, s.hinted, s.held, s.took = list, make(map[string]bool), false, false, 0
}

// Next returns the coordinator to ask. It returns false if the round is over.
func (s *Search) Next() (addr string, ok bool) {
	for len(s.next) > 0 && !s.held {
		addr, s.next = s.next[0], s.next[1:]
		if !s.tried[addr] {
			s.tried[addr] = true
			return addr, true
		}
	}
	return "", false
}

// Outcome is the result of a try, or of the session that it opened.
type Outcome struct {
	// Answered: the coordinator answered. Held: it accepted a session.
	Answered, Held bool
	Took           time.Duration
	// Leader is the leader according to the coordinator; empty: unknown.
	Leader string
	Why    error
}

// Tried records the outcome of a try.
func (s *Search) Tried(addr string, o Outcome) {
	s.judge(addr, o)
	if o.Held {
		s.held, s.took, s.preferred = true, o.Took, addr
		if o.Leader != "" && o.Leader != addr {
			s.preferred = o.Leader
		}
		return
	}
	s.why = o.Why
	if o.Leader != "" && !s.tried[o.Leader] {
		s.hinted = true
		s.preferred = o.Leader
		s.next = append([]string{o.Leader}, s.next...)
	}
}

// End ends a round and returns how long to wait, at most, before the next.
func (s *Search) End(now time.Time) (rest time.Duration) {
	if s.held {
		s.lostAt = now
		if s.took >= brief {
			s.pause = retryMin
			return 0
		}
	}
	longest := retryMax
	if now.Sub(s.lostAt) < lostFor {
		longest = retryLost
	}
	if s.hinted {
		// The leader that a coordinator named may not know yet that it leads.
		s.pause = min(s.pause, 4*retryMin)
	}
	s.pause = min(2*s.pause, longest)
	return s.pause
}

// Complain returns how long the agent has been without a session, and the last error. due reports whether to log that:
// the search takes longer than an election. The coordinators only see that the node is silent.
func (s *Search) Complain(now time.Time) (out time.Duration, why error, due bool) {
	switch {
	case s.held:
		s.out = time.Time{}
	case s.out.IsZero():
		s.out, s.told = now, time.Time{}
	case s.why != nil && now.Sub(s.out) >= complainAfter && now.Sub(s.told) >= complainPace:
		s.told = now
		return now.Sub(s.out), s.why, true
	}
	return 0, nil, false
}

const (
	// maxSlack limits the factor by which the usual time for a connection is extended, maxPatience the time for an
	// answer on a connection: an agent that waits for a stopped coordinator finds the next leader later.
	maxSlack    = 8
	maxPatience = 2
	// slackKept is how long a session must last before the usual times apply to all coordinators again.
	slackKept = time.Minute
)

// judge adapts the patience with a coordinator. A coordinator that is given up too soon must repeat its work when it is
// asked again, so one that was silent gets twice as long the next time, and is asked after all others.

func (s *Search) judge(addr string, o Outcome) {
	switch {
	case o.Held && o.Took >= slackKept:
		clear(s.slack)
	case errors.Is(o.Why, ErrSilent), !o.Answered && !o.Held && o.Took >= s.ConnectTime(addr)*9/10:
		s.slack[addr] = min(2*s.factor(addr), maxSlack)
	}
}

// factor returns the factor by which the usual time is extended for a coordinator.
func (s *Search) factor(addr string) time.Duration { return max(1, s.slack[addr]) }

// sort moves coordinators that were silent to the end.
func (s *Search) sort(addrs []string) {
	slices.SortStableFunc(addrs, func(a, b string) int { return int(s.factor(a) - s.factor(b)) })
}

// ConnectTime returns the time limit of a try to connect.
func (s *Search) ConnectTime(addr string) time.Duration { return s.factor(addr) * 2 * DialTimeout }

// AnswerTime returns how long to wait for an answer that usually arrives within d.
func (s *Search) AnswerTime(addr string, d time.Duration) time.Duration {
	return min(s.factor(addr), maxPatience) * d
}
