package ports

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSet_neverTheSameTwice(t *testing.T) {
	var s Set
	defer s.Close()
	seen := map[string]bool{}
	for i := range 50 {
		addr, err := s.Find("127.0.0.1", i%2 == 0)
		require.NoError(t, err)
		require.False(t, seen[addr], addr)
		seen[addr] = true
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Less(t, n, 32768, "outgoing connections are given those from there on")
	}
}

// The port of a component that is down stays claimed.
func TestSet_aPortIsClaimedWhileNobodyListens(t *testing.T) {
	var one, other Set
	defer one.Close()
	defer other.Close()
	addr, err := one.Find("127.0.0.1", true)
	require.NoError(t, err)
	one.Release()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err, "the component listens")
	require.NoError(t, l.Close())
	require.ErrorContains(t, other.Take(addr, false), "belongs to another cluster")
	kept, err := other.Keep(addr, "127.0.0.1", false)
	require.NoError(t, err)
	require.NotEqual(t, addr, kept)
	one.Close()
	require.NoError(t, other.Take(addr, true), "the cluster has ended")
}

func TestSet_awaitsAnAddress(t *testing.T) {
	var one, other Set
	defer one.Close()
	defer other.Close()
	addr, err := one.Find("127.0.0.1", false)
	require.NoError(t, err)
	require.ErrorContains(t, other.Await(addr, false, 0), "belongs to another cluster")
	taken := make(chan error, 1)
	go func() { taken <- other.Await(addr, false, time.Minute) }()
	one.Close()
	require.NoError(t, <-taken)
	require.ErrorContains(t, other.Await("nowhere", false, time.Minute), "missing port")
}

func TestSet_saysWhatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var s Set
	defer s.Close()
	require.ErrorContains(t, s.Take(l.Addr().String(), false), "address already in use")
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, s.Take("127.0.0.1:"+port, false), "what was not free is not claimed")
}
