package events

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/api/cursor"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// A watcher that resumes anywhere sees all later events in order, or learns that some of them are gone.
func TestRing_goesOnFromAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			l   = ring{keep: 16}
			all []event.Event
		)
		v := fsm.New().View()
		index := uint64(0)
		for range rapid.IntRange(0, 40).Draw(t, "entries") {
			index += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
			var events []event.Event
			for pos := range rapid.SampledFrom([]int{0, 1, 3, 20}).Draw(t, "events") {
				events = append(events, event.Event{Index: index, Pos: pos, Topic: event.TopicJob})
			}
			l.observe(v, events)
			all = append(all, events...)
		}
		at := rapid.IntRange(0, len(all)).Draw(t, "from") // number of events that were seen before
		from := event.Event{}
		if at > 0 {
			from = all[at-1]
		}
		number, ok := l.after(from.Index, from.Pos)
		require.Equal(t, len(all)-at <= len(l.kept), ok)
		if !ok {
			return
		}
		buf := make([]pastEvent, 1000)
		for at < len(all) {
			n, ok := l.read(number, buf)
			require.True(t, ok)
			require.Positive(t, n)
			for _, e := range buf[:n] {
				require.Equal(t, all[at], e.Event)
				at++
			}
			number += uint64(n)
		}
		select {
		case <-l.more(number):
			t.Fatal("there is nothing more")
		default:
		}
		more := l.more(number)
		l.observe(v, []event.Event{{Index: index + 1, Topic: event.TopicJob}})
		<-more
	})
}

func TestRing_afterASnapshot(t *testing.T) {
	var l ring
	m := fsm.New()
	l.observe(m.View(), []event.Event{{Index: 1, Topic: event.TopicJob}})
	m.StoreConfiguration(7, []string{"c1"})
	l.observe(m.View(), []event.Event{{Topic: event.TopicState}})
	_, ok := l.after(6, cursor.All)
	require.False(t, ok, "what the snapshot skipped was never seen here")
	_, ok = l.after(7, 0)
	require.False(t, ok, "nor was the rest of its last entry")
	number, ok := l.after(l.oldest())
	require.True(t, ok, "the oldest that is remembered")
	require.Zero(t, number-l.next)
	number, ok = l.after(7, cursor.All)
	require.True(t, ok)
	l.observe(m.View(), []event.Event{{Index: 8, Topic: event.TopicJob}})
	n, ok := l.read(number, make([]pastEvent, 5))
	require.True(t, ok)
	require.Equal(t, 1, n)
}
