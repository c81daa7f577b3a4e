package tunnel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// slow is a writer that blocks until something is received from go on.
type slow struct {
	bytes.Buffer
	goOn chan error
}

func (w *slow) Write(p []byte) (int, error) {
	if err := <-w.goOn; err != nil {
		return 0, err
	}
	return w.Buffer.Write(p)
}

// A reader that pauses keeps nobody waiting, and gets each byte once, also if some come twice after a connection broke.
func TestSink_aReaderThatPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{goOn: make(chan error)}
		s := newSink(w, func(error) {})
		take := func(offset uint64, text string) (bool, error) { return s.take(offset, []byte(text), false) }
		for offset, text := range []string{"a", "b", "c"} {
			ok, err := take(uint64(offset), text)
			require.True(t, ok)
			require.NoError(t, err)
		}
		require.Zero(t, s.done())
		ok, err := take(1, "bcd") // again, from what was told
		require.True(t, ok)
		require.NoError(t, err)
		ok, _ = take(9, "x")
		require.False(t, ok, "bytes are missing")
		ok, _ = take(4, string(make([]byte, maxUnwritten+1)))
		require.False(t, ok, "too much")
		close(w.goOn)
		require.NoError(t, s.flush(t.Context()))
		require.Equal(t, "abcd", string(w.Bytes()[:4]))
		require.EqualValues(t, w.Len(), s.done())
		s.stop()
	})
}

func TestSink_aWriterThatFails(t *testing.T) {
	told := make(chan error, 1)
	r, w := io.Pipe()
	require.NoError(t, r.CloseWithError(errors.New("gone")))
	s := newSink(w, func(err error) { told <- err })
	_, _ = s.take(0, []byte("x"), false)
	require.EqualError(t, <-told, "gone")
	require.EqualError(t, s.flush(context.Background()), "gone")
	_, err := s.take(1, []byte("y"), false)
	require.EqualError(t, err, "gone")
}
