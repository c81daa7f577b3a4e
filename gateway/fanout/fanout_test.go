package fanout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/api/cursor"
)

// watch reads to the end, with a pause after each read.
func watch(ctx context.Context, h *Hub, s Subject, from string, pause func() time.Duration) (*reader, error) {
	w := h.Watch(s, from)
	defer w.Close()
	r, err := newReader(from)
	for err == nil {
		frames, st := w.Next()
		if err = r.take(frames); err != nil {
			break
		}
		if len(frames) > 0 && pause != nil {
			time.Sleep(pause())
		}
		if st.Ended {
			return r, st.Err
		}
		if st.Changed == nil {
			continue
		}
		select {
		case <-st.Changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return r, err
}

// A watcher gets each line once and in the order of its rank, wherever it starts, at any pace, whatever the streams do.
func TestWatcher_eachLineOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		ranks := rapid.IntRange(1, 4).Draw(rt, "ranks")
		watchers := rapid.IntRange(1, 12).Draw(rt, "watchers")
		rounds := rapid.IntRange(1, 40).Draw(rt, "rounds")
		ring := rapid.IntRange(100, 4000).Draw(rt, "ring")
		var faults []string // a test cannot fail inside a bubble
		say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			src := newSource(seed, ranks)
			src.breaks = true
			h := New()
			h.limits = limits{shared: ring, alone: ring / 4, ahead: uint64(ring / 4), near: uint64(ring / 10)}
			defer h.Close()
			var all sync.WaitGroup
			errs := make([]error, watchers)
			readers := make([]*reader, watchers)
			for i := range watchers {
				late, pace := time.Duration(random.IntN(2000))*time.Millisecond, time.Duration(1+random.IntN(200))*time.Millisecond
				own := rand.New(rand.NewPCG(seed, uint64(i)))
				all.Go(func() {
					time.Sleep(late)
					from := ""
					if own.IntN(2) == 0 {
						c := cursor.Log{Attempt: 1, Offsets: map[uint16]uint64{}}
						src.mu.Lock()
						for rank := range src.lines {
							if n := len(src.lines[rank]); n > 0 {
								c.Offsets[uint16(rank)] = 10 * uint64(own.IntN(n+1))
							}
						}
						src.mu.Unlock()
						from = c.String()
					}
					readers[i], errs[i] = watch(t.Context(), h, src.subject("k"), from, func() time.Duration { return time.Duration(own.Int64N(int64(pace))) })
				})
			}
			for range rounds {
				src.print(random.IntN(ranks), random.IntN(60))
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			src.end()
			all.Wait()
			for i, err := range errs {
				if err != nil {
					say("watcher %d: %v", i, err)
					continue
				}
				for rank, lines := range src.lines {
					if got := readers[i].next[uint16(rank)]; got != uint64(len(lines)) {
						say("watcher %d was given %d of %d lines of rank %d", i, got, len(lines), rank)
					}
				}
			}
			synctest.Wait()
			if n := src.open.Load(); n != 0 || h.Streams() != 0 || len(h.groups) != 0 {
				say("%d streams are left (%d, %d groups)", n, h.Streams(), len(h.groups))
			}
		})
		if len(faults) > 0 {
			rt.Fatal(faults)
		}
	})
}

func TestWatcher_manyShareOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource(1, 2)
		h := New()
		defer h.Close()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				r, err := watch(t.Context(), h, src.subject("k"), "", nil)
				require.NoError(t, err)
				require.EqualValues(t, 250, r.next[0])
				require.EqualValues(t, 250, r.next[1])
			})
		}
		synctest.Wait()
		for range 50 {
			src.print(0, 5)
			src.print(1, 5)
			time.Sleep(time.Millisecond)
		}
		src.end()
		all.Wait()
		require.EqualValues(t, 1, src.opened.Load())
		require.Zero(t, h.Fell())
	})
}

// Watchers that begin elsewhere read their own streams until they have caught up with the others.
func TestWatcher_whoComesLateJoins(t *testing.T) {
	for _, ranks := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			src := newSource(1, ranks)
			h := New()
			h.limits = limits{shared: 16 << 10, alone: 4 << 10, ahead: 4 << 10, near: 4 << 10}
			defer h.Close()
			for rank := range ranks {
				src.print(rank, 2000) // more than a ring
			}
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 2 * time.Second)
					from := ""
					if i%2 == 1 {
						from = fmt.Sprintf("1:0=%d", i*1000)
					}
					_, err := watch(t.Context(), h, src.subject("k"), from, nil)
					require.NoError(t, err)
				})
			}
			time.Sleep(41 * time.Second)
			for range 10 {
				for rank := range ranks {
					src.print(rank, 1)
				}
				time.Sleep(time.Second)
			}
			synctest.Wait()
			require.EqualValues(t, 1, h.Streams(), "all have come together, %d ranks", ranks)
			require.LessOrEqual(t, src.most.Load(), int64(2))
			src.end()
			all.Wait()
		})
	}
}

func TestWatcher_oneThatDoesNotReadHoldsNobodyBackAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource(1, 1)
		h := New()
		h.limits = limits{shared: 64 << 10, alone: 8 << 10, ahead: 8 << 10, near: 8 << 10}
		defer h.Close()
		stalled := h.Watch(src.subject("k"), "")
		defer stalled.Close()
		r, err := newReader("")
		require.NoError(t, err)
		first := make(chan error, 1)
		go func() {
			_, err := watch(t.Context(), h, src.subject("k"), "", nil)
			first <- err
		}()
		synctest.Wait()
		src.print(0, 20_000) // several rings
		src.end()
		require.NoError(t, <-first, "nobody waits for the one that does not read")
		h.mu.Lock()
		kept := stalled.s.bytes
		h.mu.Unlock()
		require.LessOrEqual(t, kept, 2*h.limits.shared)
		for {
			frames, st := stalled.Next()
			require.NoError(t, r.take(frames))
			if st.Ended {
				require.NoError(t, st.Err)
				break
			}
			if st.Changed != nil {
				<-st.Changed
			}
		}
		require.EqualValues(t, 20_000, r.next[0])
		require.EqualValues(t, 1, h.Fell())
	})
}

func TestWatcher_nobodySharesWithAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource(1, 1)
		h := New()
		defer h.Close()
		for _, key := range []string{"a", "b", "", ""} {
			w := h.Watch(src.subject(key), "")
			defer w.Close()
		}
		synctest.Wait()
		require.EqualValues(t, 4, src.opened.Load())
		w := h.Watch(src.subject("a"), "")
		w.Close()
		require.EqualValues(t, 4, src.opened.Load())
	})
}

func TestWatcher_whatIsNoCursorIsAskedOfTheCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource(1, 1)
		h := New()
		defer h.Close()
		w := h.Watch(src.subject("k"), "nonsense")
		defer w.Close()
		synctest.Wait()
		st := w.State()
		require.True(t, st.Ended)
		require.ErrorContains(t, st.Err, "is not a cursor")
	})
}

// A stream, with its ring, advances between the check whether it fits and the join.
func TestWatcher_doesNotJoinWhatHasGoneOnMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource(1, 1)
		h := New()
		h.limits = limits{shared: 4 << 10, alone: 1 << 10, ahead: 1 << 10, near: 1 << 10}
		defer h.Close()
		src.print(0, 10)
		fast := h.Watch(src.subject("k"), "")
		defer fast.Close()
		synctest.Wait()
		begin, place := fast.s, Place{Epoch: 1}
		require.True(t, begin.covers(place))
		require.True(t, begin.whole())
		src.print(0, 1000)
		src.end()
		for ended := false; !ended; {
			_, st := fast.Next()
			if ended = st.Ended; !ended && st.Changed != nil {
				<-st.Changed
			}
		}
		late := &Watcher{hub: h, subject: src.subject("k")}
		h.mu.Lock()
		defer h.mu.Unlock()
		require.False(t, late.join(begin, &place), "it would miss what the ring has let go")
		require.False(t, late.join(begin, nil))
		require.EqualValues(t, 1, begin.watchers.Load())
		end := begin.end.clone()
		require.True(t, late.join(begin, &end))
		begin.watchers.Add(-1)
	})
}
