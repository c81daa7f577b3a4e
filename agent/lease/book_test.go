package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADeadlineIsToldSeldomWhileItIsFar(t *testing.T) {
	now := int64(1000 * time.Second)
	b := NewBook("n1", Timing{}, 0, now)
	b.Keep("t", Task{Lease: time.Minute, Replaceable: true, Stop: 40 * time.Second})
	renew := func() {
		seq, _ := b.Renewal(now)
		require.True(t, b.Acked(seq))
	}
	renew()
	_, d, ok := b.Launched("t", now)
	require.True(t, ok)
	require.Equal(t, now, d.Renewed)
	b.Held("t", true)
	minute := func(renewed bool) (told int) {
		for range 120 {
			now += int64(time.Second / 2)
			if renewed {
				renew()
			}
			words, _ := b.Due(now)
			told += len(words)
		}
		return told
	}
	require.InDelta(t, 10, minute(true), 1, "a tenth of the lease is a step")
	require.LessOrEqual(t, minute(false), 1, "nothing was renewed")
	renew()
	b.Due(now)
	b.Untold("t")
	words, _ := b.Due(now)
	require.Len(t, words, 1, "a shim that did not take it is told again")
	b.Held("t", false)
	now += int64(time.Minute)
	renew()
	words, _ = b.Due(now)
	require.Empty(t, words, "nobody to tell")
}

func TestALaunchNeedsASessionAndALease(t *testing.T) {
	now := int64(1000 * time.Second)
	b := NewBook("n1", Timing{}, 7, now)
	b.Keep("t", Task{Lease: time.Minute})
	b.Looked()
	refused := func(r Request) string {
		t.Helper()
		ok, why := b.MayLaunch("t", r, now)
		require.False(t, ok)
		return why
	}
	ok, _ := b.MayLaunch("t", Request{}, now)
	require.True(t, ok, "a task without a lease")
	require.False(t, b.Waiting())
	require.Contains(t, refused(Request{Leased: true}), "not in session")
	require.True(t, b.Waiting())
	b.SessionOpened(now)
	require.Contains(t, refused(Request{Leased: true}), "no coordinator has renewed")
	seq, _ := b.Renewal(now)
	require.EqualValues(t, 8, seq, "above what earlier agents used")
	require.True(t, b.Acked(seq))
	ok, _ = b.MayLaunch("t", Request{Leased: true}, now)
	require.True(t, ok)
	require.Contains(t, refused(Request{Leased: true, Replacement: true}), "earlier attempt")
	now += int64(9 * time.Second)
	ok, _ = b.MayLaunch("t", Request{Leased: true, Replacement: true}, now)
	require.True(t, ok)
	require.Equal(t, 9*time.Second, b.Age(now))
	now += int64(time.Minute)
	require.Contains(t, refused(Request{Leased: true}), "no coordinator has renewed")
	b.SessionClosed(now)
	seq, _ = b.Renewal(now)
	require.True(t, b.Acked(seq), "as when a peer has passed it on")
	require.Contains(t, refused(Request{Leased: true}), "not in session")
}
