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
	max, ok := ident.ParseJob("job_7zzzzzzzzzzzz")
	require.True(t, ok)
	require.Equal(t, ident.Job(math.MaxInt64), max)
	_, ok = ident.ParseJob("job_8000000000000")
	require.False(t, ok, "an element is spelled as one")
}

func TestElements_haveIDsOfTheirArray(t *testing.T) {
	first, ok := ident.Array(5)
	require.True(t, ok)
	second, _ := ident.Array(6)
	e := first.At(7)
	require.Equal(t, first.String()+"[7]", e.String())
	array, number, ok := e.Element()
	require.True(t, ok)
	require.Equal(t, first, array)
	require.EqualValues(t, 7, number)
	_, _, ok = first.Element()
	require.False(t, ok)
	require.EqualValues(t, 5, e.Created())
	require.True(t, first.Older(e))
	require.True(t, e.Older(first.At(8)))
	require.True(t, first.At(ident.MaxElement).Older(second))
	require.True(t, e.Older(ident.Job(6<<16)))
	_, ok = ident.Array(1 << 46)
	require.False(t, ok)
	for _, s := range []string{
		first.String() + "[", first.String() + "[]", first.String() + "[07]", first.String() + "[7", first.String() + "[-1]",
		first.String() + "[131072]", first.String() + "[7]]", ident.Job(6<<16).String() + "[7]", "[7]", first.String() + "[7]x",
	} {
		_, ok := ident.ParseJob(s)
		require.False(t, ok, "%q", s)
	}
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
