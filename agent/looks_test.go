package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A file system that hangs, as one of a server that is gone, does not hold up the end of a task.
func TestTheEndOfATaskDoesNotWaitForAFileSystemThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		l := newLooks(func(context.Context, look) []finding {
			<-hangs
			return nil
		})
		began := time.Now()
		l.ask(began)
		l.ask(began) // one at a time
		_, whole := l.last(true, nil)
		require.False(t, whole)
		require.Equal(t, lastLook+lastLook/10, time.Since(began))
		close(hangs)
		l.close()
	})
}

func TestALookThatTakesLongIsEndedAndWhatItFoundIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(func(ctx context.Context, l look) []finding {
			if l.last {
				<-ctx.Done()
			}
			return []finding{{latest: "something"}}
		})
		defer l.close()
		began := time.Now()
		l.ask(began)
		found, whole := l.last(true, nil)
		require.False(t, whole)
		require.Len(t, found, 2, "of the look before, and of the last")
		require.Equal(t, lastLook, time.Since(began))
	})
}

func TestTheLastLookIsToldHowTheTaskEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked []look
		l := newLooks(func(_ context.Context, l look) []finding {
			time.Sleep(time.Second)
			looked = append(looked, l)
			return nil
		})
		defer l.close()
		l.ask(time.Now())
		<-l.found
		require.Equal(t, 9*time.Second, l.came(), "what takes long is done seldom")
		l.ask(time.Now())
		_, whole := l.last(true, nil)
		require.True(t, whole)
		require.Len(t, looked, 3)
		require.False(t, looked[1].last || looked[1].endedWell)
		require.True(t, looked[2].last && looked[2].endedWell)

		// The agent stops meanwhile: the next one looks.
		over := make(chan struct{})
		close(over)
		_, whole = l.last(true, over)
		require.False(t, whole)
		<-l.found
	})
}
