package windows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// Until the next time that NextForClass says, a window admits a class as it does now.
func TestNextForClass_nothingChangesBefore(t *testing.T) {
	const hour = int64(time.Hour)
	rapid.Check(t, func(r *rapid.T) {
		w := &windows.Window{
			Kind: rapid.SampledFrom([]windows.Kind{windows.Maintenance, windows.Reservation}).Draw(r, "kind"), Tenant: "t0",
			From: rapid.Int64Range(0, 100).Draw(r, "from") * hour,
		}
		w.Until = w.From + rapid.Int64Range(1, 10).Draw(r, "for")*hour
		class := &work.ClassKey{
			Term:   rapid.SampledFrom([]work.Term{work.TermOpen, work.TermYields, 1, 5, 9, 12}).Draw(r, "term"),
			Tenant: rapid.SampledFrom([]string{"", "t0", "t1"}).Draw(r, "tenant"),
		}
		now := rapid.Int64Range(0, 120).Draw(r, "now") * hour
		next := w.NextForClass(class, now)
		require.Greater(r, next, now)
		admits := w.AdmitsClass(class, now)
		for _, at := range []int64{next - 1, now + (next-now)/2, rapid.Int64Range(now, next-1).Draw(r, "at")} {
			require.Equal(r, admits, w.AdmitsClass(class, at), "at %d", at)
		}
		if w.AdmitsClass(class, w.Until) != admits {
			require.LessOrEqual(r, next, w.Until)
		}
	})
}
