package session

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The coordinators only see that a node without a session is silent: the agent itself must log the reason.
func TestSearch_saysWhatKeepsTheAgentOut(t *testing.T) {
	s := NewSearch([]string{"c1:7001"}, nil)
	now := time.Unix(1000, 0)
	try := func(d time.Duration) (said int) {
		for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
			s.Begin()
			s.Tried("c1:7001", Outcome{Why: errors.New("tls: expired certificate")})
			if _, why, due := s.Complain(now); due {
				require.ErrorContains(t, why, "expired certificate")
				said++
			}
		}
		return said
	}
	require.Zero(t, try(8*time.Second), "an election takes its time")
	require.Equal(t, 1, try(10*time.Second))
	require.Equal(t, 5, try(5*time.Minute))
	s.Begin()
	s.Tried("c1:7001", Outcome{Held: true})
	s.Complain(now)
	require.Zero(t, try(8*time.Second), "it was in session meanwhile")
}

func TestSearch_asksEachOnceAndTheNamedLeaderNext(t *testing.T) {
	s := NewSearch([]string{"c1", "c2", "c3"}, rand.New(rand.NewPCG(1, 1)).Shuffle)
	now := time.Unix(1000, 0)
	s.Begin()
	first, ok := s.Next()
	require.True(t, ok)
	named := "c9"
	s.Tried(first, Outcome{Answered: true, Leader: named, Why: errors.New("not leading")})
	next, ok := s.Next()
	require.True(t, ok)
	require.Equal(t, named, next)
	s.Tried(named, Outcome{Answered: true, Leader: first, Why: errors.New("not leading")})
	asked := map[string]bool{first: true, named: true}
	for addr, ok := s.Next(); ok; addr, ok = s.Next() {
		require.False(t, asked[addr], "asked twice")
		asked[addr] = true
		s.Tried(addr, Outcome{Why: errors.New("connection refused")})
	}
	require.Len(t, asked, 4)
	require.Equal(t, 2*retryMin, s.End(now), "the one that was named may lead in a moment")
	s.Begin()
	next, _ = s.Next()
	require.Equal(t, named, next, "the most likely leader first")
	s.Tried(next, Outcome{Answered: true, Held: true, Took: time.Minute})
	_, ok = s.Next()
	require.False(t, ok, "a session ends the round")
	require.Zero(t, s.End(now), "at once")
}

func TestSearch_restsLongerFromRoundToRound(t *testing.T) {
	s := NewSearch([]string{"c1"}, nil)
	now := time.Unix(1000, 0)
	round := func(o Outcome) time.Duration {
		s.Begin()
		s.Tried("c1", o)
		return s.End(now)
	}
	broken := Outcome{Why: errors.New("connection refused")}
	require.Equal(t, 40*time.Millisecond, round(broken))
	for range 10 {
		round(broken)
	}
	require.Equal(t, retryMax, round(broken))
	require.Zero(t, round(Outcome{Held: true, Took: brief}))
	require.Equal(t, 40*time.Millisecond, round(broken))
	for range 10 {
		round(broken)
	}
	require.Equal(t, retryLost, round(broken), "somebody is being elected")
	now = now.Add(lostFor)
	require.Equal(t, 2*retryLost, round(broken))
	require.NotZero(t, round(Outcome{Held: true, Took: brief - 1}), "a leader that is handing over")
}

func TestSearch_silentCoordinatorsAreGivenTimeAndAskedLast(t *testing.T) {
	const usual = 2 * DialTimeout
	broken := errors.New("connection refused")
	type try struct {
		addr           string
		answered, held bool
		took           time.Duration
		why            error
	}
	for name, tc := range map[string]struct {
		tries   []try
		connect time.Duration // of c1, for the next try
		answer  time.Duration // of c1, if the usual time is a second
		last    string
	}{
		"none was silent":                {nil, usual, time.Second, "c3"},
		"one refused":                    {[]try{{"c1", false, false, time.Millisecond, broken}}, usual, time.Second, "c3"},
		"one did not connect in time":    {[]try{{"c1", false, false, usual, broken}}, 2 * usual, 2 * time.Second, "c1"},
		"again":                          {[]try{{"c1", false, false, usual, broken}, {"c1", false, false, 2 * usual, broken}}, 4 * usual, 2 * time.Second, "c1"},
		"sooner than it had time for":    {[]try{{"c1", false, false, usual, broken}, {"c1", false, false, usual, broken}}, 2 * usual, 2 * time.Second, "c1"},
		"it took its time, and answered": {[]try{{"c1", true, false, usual, broken}}, usual, time.Second, "c3"},
		"it acknowledged nothing":        {[]try{{"c1", false, true, 4 * time.Second, ErrSilent}}, 2 * usual, 2 * time.Second, "c1"},
		"another one was silent":         {[]try{{"c2", false, false, usual, broken}}, usual, time.Second, "c2"},
		"since then a session lasted": {
			[]try{{"c1", false, false, usual, broken}, {"c2", true, true, slackKept, broken}}, usual, time.Second, "c3",
		},
		"since then a session lasted, not for long": {
			[]try{{"c1", false, false, usual, broken}, {"c2", true, true, slackKept - 1, broken}}, 2 * usual, 2 * time.Second, "c1",
		},
		"always": {
			[]try{{"c1", false, false, time.Hour, broken}, {"c1", false, false, time.Hour, broken}, {"c1", false, false, time.Hour, broken}, {"c1", false, false, time.Hour, broken}},
			8 * usual, 2 * time.Second, "c1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSearch([]string{"c1", "c2", "c3"}, func(int, func(i, j int)) {})
			for _, try := range tc.tries {
				s.Begin()
				s.Tried(try.addr, Outcome{Answered: try.answered, Held: try.held, Took: try.took, Why: try.why})
			}
			require.Equal(t, tc.connect, s.ConnectTime("c1"))
			require.Equal(t, tc.answer, s.AnswerTime("c1", time.Second))
			s.preferred = ""
			s.Begin()
			var list []string
			for addr, ok := s.Next(); ok; addr, ok = s.Next() {
				list = append(list, addr)
			}
			require.Len(t, list, 3)
			require.Equal(t, tc.last, list[2])
		})
	}
}

func TestSession_isProvenByAnAcknowledgedHeartbeat(t *testing.T) {
	search := NewSearch([]string{"c1"}, nil)
	now := time.Unix(1000, 0)
	_, err := search.Welcomed("c1", nil, now)
	require.Error(t, err)
	s, err := search.Welcomed("c1", &v1.Welcome{Term: 5, HeartbeatIntervalMs: 2000}, now)
	require.NoError(t, err)
	_, err = search.Welcomed("c2", &v1.Welcome{Term: 4}, now)
	require.ErrorContains(t, err, "deposed")

	require.Equal(t, now, s.BeatAt(), "the first heartbeat at once")
	s.Beat(now)
	require.Equal(t, now.Add(2*time.Second), s.BeatAt())
	s.Beat(now.Add(time.Second))
	require.Equal(t, now.Add(2*time.Second), s.BeatAt(), "one that was sent besides changes nothing")
	s.Beat(now.Add(9 * time.Second))
	require.Equal(t, now.Add(11*time.Second), s.BeatAt(), "those that were missed are not made up for")

	gaveUp := s.SilentAt()
	require.Equal(t, now.Add(8*time.Second), gaveUp)
	roster := &v1.Roster{Version: 3}
	s.Roster(roster)
	require.False(t, s.Acked(false, now.Add(time.Second)))
	require.Equal(t, gaveUp, s.SilentAt(), "an answer that is no news proves nothing")
	require.Nil(t, s.TakeRoster(), "it may come from a coordinator that was deposed")
	require.True(t, s.Acked(true, now.Add(2*time.Second)))
	require.Equal(t, gaveUp.Add(2*time.Second), s.SilentAt())
	require.Same(t, roster, s.TakeRoster())
	require.Nil(t, s.TakeRoster())
	require.False(t, s.Acked(true, now.Add(3*time.Second)), "it opens once")

	require.Equal(t, now, s.ReportsAt())
	s.Reported(now)
	require.Equal(t, now.Add(SendPause), s.ReportsAt())
}
