package jobverbs

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSubmitCodec_readsBackWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := SubmitJobs{Jobs: rapid.SliceOfN(rapid.Make[NewJob](), 1, 4).Draw(t, "jobs")}
		for i := range want.Jobs {
			n := &want.Jobs[i]
			if len(n.Spec) == 0 {
				n.Spec = nil
			}
			if len(n.Labels) == 0 {
				n.Labels = nil
			}
			if len(n.Dependencies) == 0 {
				n.Dependencies = nil
			}
			if len(n.Credentials) == 0 {
				n.Credentials = nil
			}
		}
		b := want.AppendBody(nil)
		var got SubmitJobs
		require.NoError(t, got.ParseBody(b))
		require.Equal(t, want, got)
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		require.Error(t, new(SubmitJobs).ParseBody(b[:cut]), "cut off after %d of %d bytes", cut, len(b))
		require.Error(t, new(SubmitJobs).ParseBody(append(b, 0)))
	})
}
