package observe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A file system that hangs, for example because its server is gone, does not delay the end of a task.
func TestTheEndOfATaskDoesNotWaitForAFileSystemThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		l := newScanner(func(context.Context, look) []Finding {
			<-hangs
			return nil
		})
		began := time.Now()
		l.Ask(began)
		l.Ask(began) // ignored: only one look at a time
		_, whole := l.Last(true, nil)
		require.False(t, whole)
		require.Equal(t, LastLook+LastLook/10, time.Since(began))
		close(hangs)
		l.Close()
	})
}

func TestALookThatTakesLongIsEndedAndWhatItFoundIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newScanner(func(ctx context.Context, l look) []Finding {
			if l.last {
				<-ctx.Done()
			}
			return []Finding{{Latest: "something"}}
		})
		defer l.Close()
		began := time.Now()
		l.Ask(began)
		found, whole := l.Last(true, nil)
		require.False(t, whole)
		require.Len(t, found, 2, "of the look before, and of the last")
		require.Equal(t, LastLook, time.Since(began))
	})
}

func TestTheLastLookIsToldHowTheTaskEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked []look
		l := newScanner(func(_ context.Context, l look) []Finding {
			time.Sleep(time.Second)
			looked = append(looked, l)
			return nil
		})
		defer l.Close()
		l.Ask(time.Now())
		<-l.found
		require.Equal(t, 9*time.Second, l.Came(), "what takes long is done seldom")
		l.Ask(time.Now())
		_, whole := l.Last(true, nil)
		require.True(t, whole)
		require.Len(t, looked, 3)
		require.False(t, looked[1].last || looked[1].endedWell)
		require.True(t, looked[2].last && looked[2].endedWell)

		// The agent stops meanwhile: the next agent makes the look.
		over := make(chan struct{})
		close(over)
		_, whole = l.Last(true, over)
		require.False(t, whole)
		<-l.found
	})
}
