package ident_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/ident"
)

func TestIDs_readBackWhatTheyWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "n")
		j, ok := ident.ParseJob(ident.Job(n).String())
		require.True(t, ok)
		require.Equal(t, ident.Job(n), j)
		c, ok := ident.ParseCheckpoint(ident.Checkpoint(n).String())
		require.True(t, ok)
		require.Equal(t, ident.Checkpoint(n), c)
	})
	require.Equal(t, "job_200", ident.Job(1<<11).String())
}

func TestParseJobID_takesOneSpellingOnly(t *testing.T) {
	for _, s := range []string{
		"", "job_", "job_0", "job_01", "job_1K", "job_i", "job_l", "job_o", "job_u", "ckpt_1", "1", "job_1 ", "job_-1",
		"job_gzzzzzzzzzzzz", "job_10000000000000",
	} {
		_, ok := ident.ParseJob(s)
		require.False(t, ok, "%q", s)
	}
	max, ok := ident.ParseJob("job_fzzzzzzzzzzzz")
	require.True(t, ok)
	require.Equal(t, ident.Job(math.MaxUint64), max)
}

// FuzzParseJobID holds that whatever is taken is written the same.
func FuzzParseJobID(f *testing.F) {
	f.Add("job_1k0g00")
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := ident.ParseJob(s); ok && id.String() != s {
			t.Fatalf("%q is read as %s", s, id)
		}
	})
}
