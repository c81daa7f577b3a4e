package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/level"
)

func (w *world) noteTerm(term uint64, leader string, gap time.Duration) bool {
	return do[coordinators.TermResult](w, coordinators.NoteTerm{Term: term, Leader: leader, Gap: int64(gap), Live: 7}).Noted
}

func (w *world) newestTerm() coordinators.Term {
	for row := range w.m.View().Terms() {
		return *row
	}
	return coordinators.Term{}
}

// The beginning of each term is noted once, with the leader before it. The newest 64 are kept.
func TestNoteTerm_keepsWhoLed(t *testing.T) {
	w := newWorld(t)
	require.True(t, w.noteTerm(3, "c1", 0))
	require.Empty(t, w.newestTerm().Previous)
	require.False(t, w.noteTerm(3, "c1", time.Second), "once")
	require.False(t, w.noteTerm(2, "c9", time.Second), "a late one")
	require.False(t, w.noteTerm(0, "c9", time.Second), "none at all")
	require.True(t, w.noteTerm(5, "c2", 900*time.Millisecond))
	require.Equal(t, coordinators.Term{
		Number: 5, Leader: "c2", Previous: "c1", Index: w.index, At: w.now, Gap: int64(900 * time.Millisecond), Live: 7,
	}, w.newestTerm())
	for term := uint64(6); term < 100; term++ {
		require.True(t, w.noteTerm(term, "c1", 0))
	}
	n := 0
	for range w.m.View().Terms() {
		n++
	}
	require.Equal(t, 64, n)
	again := fsm.New()
	w.replay(again)
	require.Equal(t, w.m.View().Hash(), again.View().Hash())
}

// A job that loses a task within two minutes of a change of the leader counts as harmed, each attempt once.
func TestNoteTerm_countsHarm(t *testing.T) {
	for after, harmed := range map[time.Duration]uint32{time.Minute: 1, 2 * time.Minute: 1, 2*time.Minute + 1: 0} {
		w := cluster(t)
		wide := oneGPU()
		wide.Shape.Nodes = 2
		id := w.submit(retried(wide, 1))
		w.place(id, "n1", "n2")
		w.run(id)
		require.True(t, w.noteTerm(3, "c1", 0))
		w.later(after)
		for _, node := range []string{"n1", "n2"} {
			w.away(node)
			w.lose(node, "n3", "n4")
		}
		require.Equal(t, harmed, w.newestTerm().Harmed, after)
		// The next attempt began under the new leader.
		w.place(id, "n3", "n4")
		w.run(id)
		w.away("n3")
		w.lose("n3", "n4")
		require.Equal(t, harmed, w.newestTerm().Harmed, after)
	}
}

// Older replicas would stop at it.
func TestNoteTerm_waitsForItsLevel(t *testing.T) {
	_, err := coordinators.NoteTerm{Term: 1}.AtLevel(level.Released)
	require.ErrorContains(t, err, "the history of leaders needs feature level 2")
}
