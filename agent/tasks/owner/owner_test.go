package owner

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func counter(t *testing.T) (*Door[*int], *Workers[*int]) {
	o, door, workers := New(func(*Workers[*int]) *int { return new(int) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.Run(ctx)
	}()
	t.Cleanup(func() {
		workers.Close()
		cancel()
		<-done
	})
	return door, workers
}

func TestAskWaitsAndTellKeepsTheOrder(t *testing.T) {
	door, workers := counter(t)
	var seen []int
	for i := range 100 {
		door.Tell(func(n *int) { *n = i })
		door.Tell(func(n *int) { seen = append(seen, *n) })
	}
	ran := make(chan bool)
	workers.Go(func(d *Door[*int]) { ran <- d.Ask(func(n *int) { *n = 1000 }) })
	require.True(t, <-ran)
	got := 0
	require.True(t, door.Ask(func(n *int) { got = *n }))
	require.Equal(t, 1000, got)
	require.Len(t, seen, 100)
	require.IsIncreasing(t, seen)
}

func TestNobodyWaitsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, door, workers := New(func(*Workers[*int]) *int { return new(int) })
		ctx, cancel := context.WithCancel(t.Context())
		go o.Run(ctx)
		hangs, asked := make(chan struct{}), make(chan bool)
		door.Tell(func(*int) { <-hangs })
		ranLate := false
		go func() { asked <- door.Ask(func(*int) { ranLate = true }) }()
		synctest.Wait()
		workers.Close()
		require.False(t, <-asked)
		close(hangs)
		synctest.Wait()
		require.False(t, ranLate, "what Ask has given up does not run")
		workers.Go(func(*Door[*int]) { t.Error("a worker after Close") })
		require.True(t, door.Closed())
		cancel()
		synctest.Wait()
	})
}

func TestAskThatHasBegunIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, door, workers := New(func(*Workers[*int]) *int { return new(int) })
		ctx, cancel := context.WithCancel(t.Context())
		go o.Run(ctx)
		hangs, asked := make(chan struct{}), make(chan bool, 1)
		go func() { asked <- door.Ask(func(*int) { <-hangs }) }()
		synctest.Wait()
		workers.Close()
		synctest.Wait()
		require.Empty(t, asked, "it is being run")
		close(hangs)
		require.True(t, <-asked)
		cancel()
		synctest.Wait()
	})
}
