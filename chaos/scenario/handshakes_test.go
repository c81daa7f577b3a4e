package scenario

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/pki"
)

func TestStorm_countsWhatBecameOfItsHandshakes(t *testing.T) {
	dir := t.TempDir()
	authority := filepath.Join(dir, "pki")
	ca, err := pki.CreateCA(authority)
	require.NoError(t, err)
	files, err := ca.Issue(dir, "c1", pki.RoleCoordinator, "localhost")
	require.NoError(t, err)
	config, err := files.ServerTLS()
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait) // after the listeners are closed
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer c.Close()
					serve(c)
				})
			}
		})
		return l.Addr().String()
	}
	takes := listen(func(c net.Conn) { _ = tls.Server(c, config).HandshakeContext(t.Context()) })
	turnsAway := listen(func(net.Conn) {})
	s, err := newStorm(procs.Info{Coordinators: []procs.Component{{GRPCAddr: takes}, {GRPCAddr: turnsAway}}}, authority, dir)
	require.NoError(t, err)
	stop := s.blow(t.Context(), 100)
	require.Eventually(t, func() bool { return s.done.Load() >= 10 && s.turnedAway.Load() >= 10 }, time.Minute, 10*time.Millisecond)
	stop()
	require.GreaterOrEqual(t, s.begun.Load(), s.done.Load()+s.turnedAway.Load())
	require.Regexp(t, `^\d+ handshakes a second were begun, \d+ done, \d+ given up or turned away$`, s.String())
}
