package members

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLearners_fate(t *testing.T) {
	watch := learners{}
	at := func(after time.Duration, names ...string) *membership {
		m := members(names...)
		for i := range m.peers {
			if !m.peers[i].Heard.Before(someTime.Add(-time.Second)) {
				m.peers[i].Heard = someTime.Add(after)
			}
		}
		m.now = someTime.Add(after)
		watch.look(m)
		return m
	}
	fate := func(m *membership) (fate, string) { return watch.fate(m, "c4") }

	m := at(0, "c1", "c2", "c3", "(c4)")
	m.peers[3].LastIndex = 10
	watch["c4"].close = time.Time{}
	got, why := fate(m)
	require.Equal(t, learnerWaits, got)
	require.Equal(t, "it lacks 4990 entries; at most 1000 are allowed", why)

	m = at(time.Second, "c1", "c2", "c3", "(c4)")
	got, why = fate(m)
	require.Equal(t, learnerWaits, got)
	require.Contains(t, why, "it has kept up for 0s; it takes 10s")
	got, why = fate(at(5*time.Second, "c1", "c2", "c3", "(C4)"))
	require.Equal(t, learnerWaits, got)
	require.Equal(t, "it does not answer", why)
	fate(at(6*time.Second, "c1", "c2", "c3", "(c4)"))
	got, _ = fate(at(15*time.Second, "c1", "c2", "c3", "(c4)"))
	require.Equal(t, learnerWaits, got, "it begins again after it was silent")
	got, why = fate(at(16*time.Second, "c1", "c2", "C3", "(c4)"))
	require.Equal(t, learnerWaits, got)
	require.Contains(t, why, "c3 of the voters of today does not answer")
	got, _ = fate(at(17*time.Second, "c1", "c2", "c3", "(c4)"))
	require.Equal(t, learnerReady, got)

	got, why = fate(at(giveUpAfter, "c1", "c2", "C3", "(c4)"))
	require.Equal(t, learnerGivenUp, got)
	require.Contains(t, why, "c3 of the voters")
	at(giveUpAfter+time.Second, "c1", "c2", "c3", "c4")
	require.Empty(t, watch, "it votes")
}
