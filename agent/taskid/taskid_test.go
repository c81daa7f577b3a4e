package taskid

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseIsTheReverseOfName(t *testing.T) {
	id := ID{Job: "job_1", Attempt: 2, Rank: 3, Token: 4}
	require.Equal(t, "job_1.2.3.4", id.Name())
	got, ok := Parse(id.Name())
	require.True(t, ok)
	require.Equal(t, id, got)
	require.Equal(t, id, Of(id.Ref()))
	for _, name := range []string{"", "job_1", "job_1.2.3", "job_1.2.3.4.5", ".1.2.3", "job_1.02.3.4", "job_1.2.3.-4", "job_1.2.x.4"} {
		_, ok := Parse(name)
		require.False(t, ok, name)
	}
}

func TestAJobIDThatLeadsElsewhereIsNotValid(t *testing.T) {
	require.True(t, ID{Job: "job_1"}.Valid())
	for _, job := range []string{"", "..", "a/b", "a\\b", "a\x00", "a\nb", "a.b"} {
		require.False(t, ID{Job: job}.Valid(), job)
	}
}
