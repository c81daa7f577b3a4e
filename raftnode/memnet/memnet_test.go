package memnet

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func pair(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	a, err := n.Listen("a")
	require.NoError(t, err)
	b, err := n.Listen("b")
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	accepted := make(chan net.Conn)
	go func() {
		c, _ := b.Accept()
		accepted <- c
	}()
	near, err = a.Dial("b", time.Second)
	require.NoError(t, err)
	return near, <-accepted
}

func TestNetwork_cutHoldsBackAndJoinDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		near, far := pair(t, n)
		require.Equal(t, []string{"a", "b"}, []string{near.LocalAddr().String(), near.RemoteAddr().String()})
		n.Cut("a", "b")
		_, err := near.Write([]byte("held"))
		require.NoError(t, err)
		require.NoError(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
		buf := make([]byte, 8)
		_, err = far.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		_, err = far.Write([]byte("back")) // the other direction is not cut
		require.NoError(t, err)
		got, err := near.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "back", string(buf[:got]))

		require.NoError(t, far.SetReadDeadline(time.Time{}))
		require.NoError(t, near.Close())
		n.Join("a", "b")
		got, err = far.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "held", string(buf[:got]))
		_, err = far.Read(buf)
		require.ErrorIs(t, err, io.EOF)
		_, err = far.Write(buf)
		require.Error(t, err)
		_, err = near.Read(buf)
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, far.Close())
	})
}

func TestNetwork_delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		near, far := pair(t, n)
		n.SetDelay(30 * time.Millisecond)
		began := time.Now()
		_, err := near.Write([]byte("x"))
		require.NoError(t, err)
		_, err = far.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 30*time.Millisecond, time.Since(began))
	})
}

func TestNetwork_dial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, err := n.Listen("a")
		require.NoError(t, err)
		_, err = n.Listen("a")
		require.ErrorContains(t, err, "in use")
		_, err = a.Dial("b", time.Second)
		require.ErrorIs(t, err, errRefused)
		b, err := n.Listen("b")
		require.NoError(t, err)
		n.Isolate("b")
		began := time.Now()
		_, err = a.Dial("b", time.Second)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		n.Heal()
		require.NoError(t, b.Close())
		_, err = b.Accept()
		require.ErrorIs(t, err, io.EOF)
		again, err := n.Listen("b")
		require.NoError(t, err)
		require.NoError(t, again.Close())
		require.NoError(t, a.Close())
	})
}
