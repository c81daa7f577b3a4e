package members

import (
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/raftnode"
)

// A change of the membership must leave a quorum that is there: the voters of the new set that answer now must be a majority
// of it, without the coordinator that is added or that moves. Then no single change can stop the cluster, whatever becomes
// of that coordinator. The rules are plain functions of what the leader knows.

const (
	// silentAfter is how long a coordinator may not have answered the leader to count as there. Heartbeats come ten times
	// an election timeout.
	silentAfter = 2 * time.Second
	// promoteWithin is how many entries a learner may lack to count as up to date, promoteAfter for how long it must have
	// been up to date to be given a vote, and giveUpAfter how long it may take to get there.
	promoteWithin = 1000
	promoteAfter  = 10 * time.Second
	giveUpAfter   = 10 * time.Minute
	// maxMembers bounds voters and learners together: each is sent the whole log.
	maxMembers = 9
)

// quorum is a majority of so many voters.
func quorum(voters int) int { return voters/2 + 1 }

// membership is who is in the cluster, as its leader sees it at a moment.
type membership struct {
	self  string
	peers []raftnode.Peer
	now   time.Time
}

func (m *membership) find(id string) (raftnode.Peer, bool) {
	for _, p := range m.peers {
		if p.ID == id {
			return p, true
		}
	}
	return raftnode.Peer{}, false
}

func (m *membership) answers(p raftnode.Peer) bool {
	return p.ID == m.self || !p.Heard.IsZero() && m.now.Sub(p.Heard) <= silentAfter
}

// lag is how many entries a peer lacked when it last answered.
func (m *membership) lag(p raftnode.Peer) uint64 {
	self, _ := m.find(m.self)
	return self.LastIndex - min(p.LastIndex, self.LastIndex)
}

// voters counts the voters but one, those of them that answer, and names those that do not.
func (m *membership) voters(without string) (all, there int, silent []string) {
	for _, p := range m.peers {
		if !p.Voter || p.ID == without {
			continue
		}
		all++
		if m.answers(p) {
			there++
		} else {
			silent = append(silent, p.ID)
		}
	}
	return all, there, silent
}

// mayHave says whether the set of voters may become one of so many, if those but one that answer now have to be its quorum;
// empty: it may.
func (m *membership) mayHave(voters int, without string) string {
	_, there, silent := m.voters(without)
	if there >= quorum(voters) {
		return ""
	}
	why := fmt.Sprintf("there would be %d voters, of which %d must answer, and %d would without %s", voters, quorum(voters), there, without)
	if len(silent) > 0 {
		why += fmt.Sprintf("; %s of the voters of today %s: take them out first (mind raft remove), or bring them back", strings.Join(silent, ", "), doNotAnswer(len(silent)))
	}
	return why
}

func doNotAnswer(n int) string {
	if n == 1 {
		return "does not answer"
	}
	return "do not answer"
}

// mayPromote says whether a learner may be given a vote now, but for how well it keeps up; empty: it may. A cluster of one
// cannot grow without depending on who joins: the learner counts there.
func (m *membership) mayPromote(id string) string {
	all, there, _ := m.voters(id)
	if all == 1 && there == 1 {
		return ""
	}
	return m.mayHave(all+1, id)
}

// joining is what a request to join comes to.
type joining uint8

const (
	joinKnown   joining = iota // It is a member already, at that address.
	joinLearner                // It becomes a learner.
	joinMoves                  // It is a member, and its address changes.
)

// mayJoin decides about a request to join; the text says why it is refused.
func (m *membership) mayJoin(id, addr string) (joining, string) {
	for _, p := range m.peers {
		if p.ID != id && p.Addr == addr {
			return 0, fmt.Sprintf("%s is the address of %s", addr, p.ID)
		}
	}
	member, known := m.find(id)
	switch {
	case known && member.Addr == addr:
		return joinKnown, ""
	case known && member.Voter:
		all, _, _ := m.voters("")
		return joinMoves, m.mayHave(all, id)
	case known:
		return joinMoves, ""
	case len(m.peers) >= maxMembers:
		return 0, fmt.Sprintf("there are %d members already; take one out first (mind raft remove)", len(m.peers))
	}
	// A learner has no vote and harms nothing. But one that could not be promoted is told at once.
	return joinLearner, m.mayPromote(id)
}

// mayRemove says why a member may not be taken out; empty: it may.
func (m *membership) mayRemove(id string) string {
	member, known := m.find(id)
	if !known || !member.Voter {
		return ""
	}
	left, there, silent := m.voters(id)
	switch {
	case left == 0:
		return fmt.Sprintf("%s is the only voter", id)
	case there >= quorum(left):
		return ""
	}
	return fmt.Sprintf("%d voters would be left, of which %d must answer, and %d do: %s %s. Take out the silent ones first, or bring them back",
		left, quorum(left), there, strings.Join(silent, ", "), doNotAnswer(len(silent)))
}
