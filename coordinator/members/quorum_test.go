package members

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/raftnode"
)

var someTime = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)

// members parses a membership: c1 leads, a name in capitals does not answer, and one in brackets is a learner.
func members(names ...string) *membership {
	m := &membership{self: "c1", now: someTime}
	for _, name := range names {
		p := raftnode.Peer{ID: name, Voter: true, Heard: someTime.Add(-time.Second), LastIndex: 5000}
		if name[0] == '(' {
			p.ID, p.Voter = name[1:len(name)-1], false
		}
		if p.ID[0] == 'C' {
			p.ID, p.Heard = "c"+p.ID[1:], someTime.Add(-time.Minute)
		}
		p.Addr = p.ID + ":1"
		m.peers = append(m.peers, p)
	}
	return m
}

func TestMembership_mayJoin(t *testing.T) {
	tests := map[string]struct {
		now      []string
		id, addr string
		want     joining
		refused  string
	}{
		"the second of one":             {[]string{"c1"}, "c2", "c2:1", joinLearner, ""},
		"the third of two":              {[]string{"c1", "c2"}, "c3", "c3:1", joinLearner, ""},
		"the fourth of three":           {[]string{"c1", "c2", "c3"}, "c4", "c4:1", joinLearner, ""},
		"while one of three is dead":    {[]string{"c1", "c2", "C3"}, "c4", "c4:1", joinLearner, "4 voters, of which 3 must answer, and 2 would without c4; c3 of the voters of today does not answer"},
		"the fifth of four":             {[]string{"c1", "c2", "c3", "c4"}, "c5", "c5:1", joinLearner, ""},
		"while one of four is dead":     {[]string{"c1", "c2", "c3", "C4"}, "c5", "c5:1", joinLearner, ""},
		"while two of five are dead":    {[]string{"c1", "c2", "c3", "C4", "C5"}, "c6", "c6:1", joinLearner, "6 voters, of which 4 must answer, and 3"},
		"a member":                      {[]string{"c1", "c2", "c3"}, "c2", "c2:1", joinKnown, ""},
		"a learner":                     {[]string{"c1", "(c2)"}, "c2", "c2:1", joinKnown, ""},
		"a member at another address":   {[]string{"c1", "c2", "c3"}, "c2", "c9:1", joinMoves, ""},
		"the same, with one dead":       {[]string{"c1", "c2", "C3"}, "c2", "c9:1", joinMoves, "3 voters, of which 2 must answer, and 1 would without c2"},
		"a dead member that moved":      {[]string{"c1", "c2", "C3"}, "c3", "c9:1", joinMoves, ""},
		"a learner at another address":  {[]string{"c1", "(C2)"}, "c2", "c9:1", joinMoves, ""},
		"at another's address":          {[]string{"c1", "c2", "c3"}, "c4", "c2:1", 0, "c2:1 is the address of c2"},
		"when there are too many":       {[]string{"c1", "c2", "c3", "(c4)", "(c5)", "(c6)", "(c7)", "(c8)", "(c9)"}, "d1", "d1:1", 0, "there are 9 members already"},
		"beside a learner that is dead": {[]string{"c1", "c2", "c3", "(C4)"}, "c5", "c5:1", joinLearner, ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got, why := members(c.now...).mayJoin(c.id, c.addr)
			if c.refused != "" {
				require.Contains(t, why, c.refused)
				return
			}
			require.Empty(t, why)
			require.Equal(t, c.want, got)
		})
	}
}

func TestMembership_mayRemove(t *testing.T) {
	tests := map[string]struct {
		now     []string
		id      string
		refused string
	}{
		"a dead one of three":            {[]string{"c1", "c2", "C3"}, "c3", ""},
		"a live one of three":            {[]string{"c1", "c2", "c3"}, "c3", ""},
		"a live one, while one is dead":  {[]string{"c1", "c2", "C3"}, "c2", "2 voters would be left, of which 2 must answer, and 1 do: c3 does not answer"},
		"a learner":                      {[]string{"c1", "C2", "(c3)"}, "c3", ""},
		"nobody":                         {[]string{"c1", "C2"}, "c9", ""},
		"a live one of five, two dead":   {[]string{"c1", "c2", "c3", "C4", "C5"}, "c3", "c4, c5 do not answer"},
		"a dead one of five, two dead":   {[]string{"c1", "c2", "c3", "C4", "C5"}, "c5", ""},
		"a dead one of four, one dead":   {[]string{"c1", "c2", "c3", "C4"}, "c4", ""},
		"the last one beside the leader": {[]string{"c1", "c2"}, "c2", ""},
		"the only one":                   {[]string{"c1"}, "c1", "the only voter"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			why := members(c.now...).mayRemove(c.id)
			if c.refused == "" {
				require.Empty(t, why)
			} else {
				require.Contains(t, why, c.refused)
			}
		})
	}
}

func TestMembership_mayLead(t *testing.T) {
	m := members("c1", "c2", "C3", "c4")
	m.peers[3].Heard = time.Time{}
	require.Empty(t, m.mayLead("c2"))
	require.Empty(t, m.mayLead("c4"), "the leader was just elected")
	require.Equal(t, "it last answered 1m0s ago (see mind raft peers); name another one, or none for the one that is most up to date", m.mayLead("c3"))
}

// No sequence of calls takes the quorum away from a set of voters, even if all coordinators that joined by these calls
// fail at once. The exception is a cluster of one, which cannot grow otherwise.
func TestMembership_noCallDestroysTheQuorum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{2, 3, 5}).Draw(t, "voters")
		m := &membership{self: "c1", now: someTime}
		ids := []string{"c1", "c2", "c3", "c4", "c5"}
		for i := range size {
			m.peers = append(m.peers, raftnode.Peer{ID: ids[i], Addr: ids[i] + ":1", Voter: true, Heard: someTime})
		}
		dead := rapid.IntRange(0, size-quorum(size)).Draw(t, "dead")
		for i := range dead {
			m.peers[size-1-i].Heard = time.Time{}
		}
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			id := rapid.SampledFrom(append([]string{"evil1", "evil2", "evil3", "evil4"}, ids[1:]...)).Draw(t, "id")
			switch rapid.IntRange(0, 2).Draw(t, "call") {
			case 0:
				how, why := m.mayJoin(id, rapid.SampledFrom([]string{id + ":1", "nowhere:1"}).Draw(t, "addr"))
				switch {
				case why != "":
				case how == joinLearner:
					m.peers = append(m.peers, raftnode.Peer{ID: id, Addr: "a", Heard: someTime})
				case how == joinMoves:
					for i := range m.peers {
						if m.peers[i].ID == id {
							m.peers[i].Heard = time.Time{} // it never answered
						}
					}
				}
			case 1:
				if p, ok := m.find(id); ok && !p.Voter && m.mayPromote(id) == "" {
					for i := range m.peers {
						if m.peers[i].ID == id {
							m.peers[i].Voter = true
							m.peers[i].Heard = time.Time{} // and it fails
						}
					}
				}
			case 2:
				if m.mayRemove(id) == "" && id != "c1" {
					var left []raftnode.Peer
					for _, p := range m.peers {
						if p.ID != id {
							left = append(left, p)
						}
					}
					m.peers = left
				}
			}
			all, there, _ := m.voters("")
			if all > 2 { // The steps from one voter to two and back depend on the new member.
				require.GreaterOrEqual(t, there, quorum(all), "%+v", m.peers)
			}
		}
	})
}

func TestMembership_lag(t *testing.T) {
	m := members("c1", "c2")
	m.peers[1].LastIndex = 4990
	require.EqualValues(t, 10, m.lag(m.peers[1]))
	m.peers[1].LastIndex = 6000
	require.Zero(t, m.lag(m.peers[1]))
}
