package raftnode

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/pki"
	"github.com/mindcoordinator/mind/raftnode/stream"
)

// New connections use the authorities that are in the CA files at that time, at both ends, and still accept only
// coordinators.
func TestTransport_aReplacedAuthorityIsFollowed(t *testing.T) {
	before, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	after, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	dir := t.TempDir()
	// component makes a stream with a certificate of ca and a CA file of its own.
	component := func(ca *pki.CA, id, role string, believes ...*pki.CA) (*stream.Stream, pki.Files) {
		files, err := ca.Issue(dir, id, role)
		require.NoError(t, err)
		files.CA = filepath.Join(dir, id+"-believes")
		believe(t, files.CA, believes...)
		keys, err := pki.Open(files, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		s, err := listen(Config{BindAddr: "127.0.0.1:0", ServerTLS: keys.Server(), DialTLS: keys.Client().Config}.withDefaults())
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		go func() {
			for {
				c, err := s.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = c.Read(make([]byte, 1))
					_, _ = c.Write([]byte("x"))
					_ = c.Close()
				}()
			}
		}()
		return s, files
	}
	c1, files1 := component(before, "c1", "coordinator", before)
	c2, files2 := component(after, "c2", "coordinator", after)
	n1, _ := component(after, "n1", "agent", before, after)
	speak := func(from, to *stream.Stream) error {
		c, err := from.Dial(raft.ServerAddress(to.Addr().String()), 30*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err = c.Write([]byte("x")); err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		return err
	}
	require.Error(t, speak(c1, c2))
	require.Error(t, speak(c2, c1))
	believe(t, files1.CA, before, after)
	believe(t, files2.CA, before, after)
	// Files are checked at most once a second.
	require.Eventually(t, func() bool { return speak(c1, c2) == nil && speak(c2, c1) == nil }, time.Minute, 20*time.Millisecond)
	require.Error(t, speak(n1, c1), "an agent speaks raft")
	require.ErrorContains(t, speak(c1, n1), "no coordinator")
	believe(t, files2.CA, after)
	require.Eventually(t, func() bool { return speak(c2, c1) != nil && speak(c1, c2) != nil }, time.Minute, 20*time.Millisecond)
}

func believe(t *testing.T, name string, authorities ...*pki.CA) {
	t.Helper()
	var bundle []byte
	for _, ca := range authorities {
		text, err := os.ReadFile(ca.CertFile)
		require.NoError(t, err)
		bundle = append(bundle, text...)
	}
	require.NoError(t, os.WriteFile(name+".new", bundle, 0o600))
	require.NoError(t, os.Rename(name+".new", name))
}
