package events

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// A watcher that comes from a replica that was ahead must not get again the events that this replica has yet to apply.
// Found by seed 1 of the virtual-time cluster.
func TestWatcher_hearsNothingAgainFromAReplicaThatIsBehind(t *testing.T) {
	var log ring
	empty := fsm.New().View()
	observe := func(index uint64, positions int) {
		var events []event.Event
		for pos := range positions {
			events = append(events, event.Event{Index: index, Pos: pos, Topic: event.TopicNode})
		}
		log.observe(empty, events)
	}
	observe(356, 2)
	w := watcher{tenant: "t1", index: 361, position: 0}
	number, ok := log.after(w.index, w.position)
	require.True(t, ok)
	observe(358, 3)
	observe(361, 2)
	observe(362, 1)
	buf := make([]pastEvent, 10)
	n, ok := log.read(number, buf)
	require.True(t, ok)
	var told []string
	for _, e := range w.wanted(empty, buf[:n]) {
		told = append(told, e.GetCursor())
	}
	require.Equal(t, []string{"361.1", "362.0"}, told)
}
