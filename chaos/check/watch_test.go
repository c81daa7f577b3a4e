package check

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/event"
)

func TestWatch_noticesWhatIsMissingRepeatedOrOfAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		does func(w *Watch)
		want string
	}{
		"all of it":      {func(w *Watch) { w.Saw(Stamp{5, 0}); w.Saw(Stamp{7, 1}); w.Reached(Stamp{9, 0}) }, ""},
		"one is missing": {func(w *Watch) { w.Saw(Stamp{7, 1}) }, "I10: a watcher of a is not told event 5.0"},
		"one is told to be gone": {func(w *Watch) {
			w.Begin(6)
			w.Saw(Stamp{7, 1})
		}, ""},
		"one comes again": {func(w *Watch) { w.Saw(Stamp{5, 0}); w.Saw(Stamp{5, 0}); w.Saw(Stamp{7, 1}) }, "I10: a watcher of a is told event 5.0 after 5.0"},
		"out of order":    {func(w *Watch) { w.Saw(Stamp{7, 1}); w.Saw(Stamp{5, 0}) }, "I10: a watcher of a is told event 5.0 after 7.1"},
		"another's":       {func(w *Watch) { w.Saw(Stamp{5, 0}); w.Saw(Stamp{6, 0}); w.Saw(Stamp{7, 1}) }, "I11: a watcher of a is told event 6.0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Findings{}
			r := NewReplicas(f)
			r.note(&event.Event{Index: 5, Tenant: "a"})
			r.note(&event.Event{Index: 6, Tenant: "b"})
			r.note(&event.Event{Index: 7, Pos: 1, Topic: event.TopicNode})
			w := NewWatch(f, "a")
			w.Begin(4)
			tc.does(w)
			w.Verify(r)
			if tc.want == "" {
				require.Empty(t, f.All())
				return
			}
			require.Contains(t, strings.Join(f.All(), "\n"), tc.want)
		})
	}
}
