package work_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// TestCanMove_everyPair spells the table out a second time, by hand, as a matrix: rows move to columns.
func TestCanMove_everyPair(t *testing.T) {
	const (
		u = v1.JobState_UNSPECIFIED
		q = v1.JobState_QUEUED
		a = v1.JobState_ALLOCATED
		s = v1.JobState_STARTING
		r = v1.JobState_RUNNING
		p = v1.JobState_PAUSED
		k = v1.JobState_SUCCEEDED
		f = v1.JobState_FAILED
		c = v1.JobState_CANCELED
		e = v1.JobState_PREEMPTED
		l = v1.JobState_LOST
	)
	legal := map[v1.JobState_Value][]v1.JobState_Value{
		u: {q},
		q: {a, p, c},
		a: {s, q, p, f, c, e, l},
		s: {r, q, p, f, c, e, l},
		r: {k, q, p, f, c, e, l},
		p: {q, c},
		k: {},
		f: {q},
		c: {q},
		e: {q},
		l: {q},
	}
	require.Len(t, legal, len(v1.JobState_Value_name))
	for from := range v1.JobState_Value_name {
		for to := range v1.JobState_Value_name {
			from, to := v1.JobState_Value(from), v1.JobState_Value(to)
			want := false
			for _, x := range legal[from] {
				want = want || x == to
			}
			require.Equal(t, want, work.CanMove(from, to), "%s to %s", from, to)
		}
	}
	require.False(t, work.CanMove(-1, q))
	require.False(t, work.CanMove(q, 99))
}

func TestTransitions_listsEachPairOnce(t *testing.T) {
	seen := map[[2]v1.JobState_Value]bool{}
	for _, x := range work.Transitions() {
		pair := [2]v1.JobState_Value{x.From, x.To}
		require.False(t, seen[pair], "%s to %s twice", x.From, x.To)
		seen[pair] = true
		require.NotEmpty(t, x.Why)
	}
}

func TestMermaid_isTheDrawingInTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/develop/fsm.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(doc), "```mermaid\n")
	require.True(t, ok, "docs/develop/fsm.md has no drawing")
	drawing, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	require.Contains(t, string(doc), work.MermaidOfArrays(), "paste what MermaidOfArrays() returns into docs/develop/fsm.md")
	require.Equal(t, work.Mermaid(), drawing, "paste what Mermaid() returns into docs/develop/fsm.md")
}
