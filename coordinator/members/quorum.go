package members

import (
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/raftnode"
)

// A change of the membership must leave a quorum that answers: the voters of the new set that answer now must be a
// majority of it, without the coordinator that is added or that moves. Then no single change can stop the cluster, even
// if that coordinator fails. The rules are pure functions of the leader's data.

const (
	// silentAfter is the age of a coordinator's last answer to the leader from which on it counts as silent. There are
	// ten heartbeats in an election timeout.
	silentAfter = 2 * time.Second
	// promoteWithin is the number of entries that a learner may lack to count as up to date. promoteAfter is how long
	// it must have been up to date before it gets a vote. giveUpAfter is how long that may take.
	promoteWithin = 1000
	promoteAfter  = 10 * time.Second
	giveUpAfter   = 10 * time.Minute
	// maxMembers bounds voters and learners together, because the leader sends the whole log to each.
	maxMembers = 9
)

// quorum returns the size of a majority of the voters.
func quorum(voters int) int { return voters/2 + 1 }

// membership has the members of the cluster, as the leader sees them at a moment.
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

// mayLead says why a voter cannot take leadership over; empty: it may. A leader that was just elected has not heard of all voters
// yet, and lets them try.
func (m *membership) mayLead(id string) string {
	p, _ := m.find(id)
	if m.answers(p) || p.Heard.IsZero() {
		return ""
	}
	return fmt.Sprintf("it last answered %s ago (see mind raft peers); name another one, or none for the one that is most up to date",
		m.now.Sub(p.Heard).Round(100*time.Millisecond))
}

// lag returns the number of entries that a peer lacked when it last answered.
func (m *membership) lag(p raftnode.Peer) uint64 {
	self, _ := m.find(m.self)
	return self.LastIndex - min(p.LastIndex, self.LastIndex)
}

// voters counts the voters without one of them, and those that answer, and names those that do not.
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

// mayHave returns why the number of voters may not become the given one, if the voters that answer now, without one,
// have to be a quorum of it; empty: it may.
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

// mayPromote returns why a learner may not get a vote now, apart from how well it keeps up; empty: it may. A cluster of
// one cannot grow without depending on the new member, so there the learner counts.
func (m *membership) mayPromote(id string) string {
	all, there, _ := m.voters(id)
	if all == 1 && there == 1 {
		return ""
	}
	return m.mayHave(all+1, id)
}

// joining is the outcome of a request to join.
type joining uint8

const (
	joinKnown   joining = iota // The coordinator is a member already, at that address.
	joinLearner                // The coordinator becomes a learner.
	joinMoves                  // The coordinator is a member, and its address changes.
)

// mayJoin decides about a request to join. The text is the reason of a refusal.
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
	// A learner has no vote and harms nothing. But a learner that could never be promoted is refused at once.
	return joinLearner, m.mayPromote(id)
}

// mayRemove returns why a member may not be removed; empty: it may.
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
