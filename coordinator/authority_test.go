package coordinator

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

// Three coordinators run while their authority is replaced: files are copied, nothing is restarted, and after each round
// the replicas reach each other on new connections, and gateways reach them.
func TestTLS_anAuthorityIsReplacedWhileItRuns(t *testing.T) {
	before, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	after, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return text
	}
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(name+".new", text, 0o600))
		require.NoError(t, os.Rename(name+".new", name))
	}
	old, fresh := read(before.CertFile), read(after.CertFile)
	both := append(append([]byte{}, old...), fresh...)
	home := t.TempDir()
	// install gives a component a certificate of an authority, under the names that it was started with.
	install := func(ca *pki.CA, id, role string) pki.Files {
		files, err := ca.Issue(home, id, role, "127.0.0.1")
		require.NoError(t, err)
		files.CA = filepath.Join(home, id+"-ca.pem")
		return files
	}
	believe := func(id string, authorities []byte) { write(filepath.Join(home, id+"-ca.pem"), authorities) }

	c := &cluster{t: t, members: map[string]*member{}}
	ports := freePorts(t, 9)
	var peers []Peer
	for i, id := range []string{"c1", "c2", "c3"} {
		c.ids = append(c.ids, id)
		peers = append(peers, Peer{ID: id, GRPCAddr: ports[3*i], HTTPAddr: ports[3*i+1], RaftAddr: ports[3*i+2]})
	}
	// reaches says whether a gateway with a certificate of that authority can open a connection, and believes who answers.
	reaches := func(ca *pki.CA, believes []byte, addr string) bool {
		dir := t.TempDir()
		files, err := ca.Issue(dir, "gateway", pki.RoleGateway)
		require.NoError(t, err)
		files.CA = filepath.Join(dir, "believed.pem")
		write(files.CA, believes)
		keys, err := pki.Open(files, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(keys.Client(pki.RoleCoordinator).Credentials()))
		require.NoError(t, err)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(c.ctx("t1", ""), 30*time.Second)
		defer cancel()
		_, err = v1.NewClusterServiceClient(conn).GetCluster(ctx, &v1.GetClusterRequest{})
		return err == nil
	}
	// The test speaks as another coordinator: nobody else may ask all that it asks.
	operator := install(before, "operator", pki.RoleCoordinator)
	believe("operator", both)
	keys, err := pki.Open(operator, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for i, id := range c.ids {
		files := install(before, id, pki.RoleCoordinator)
		believe(id, old)
		conn, err := grpc.NewClient("passthrough:///"+peers[i].GRPCAddr, grpc.WithTransportCredentials(keys.Client(pki.RoleCoordinator).Credentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		c.members[id] = &member{conn: conn, config: Config{
			ID: id, DataDir: t.TempDir(), GRPCAddr: peers[i].GRPCAddr, HTTPAddr: peers[i].HTTPAddr, RaftAddr: peers[i].RaftAddr,
			Peers: peers, APISecret: "secret", CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA, Logger: slog.New(slog.DiscardHandler),
			Timers: unhurried,
		}}
		c.start(id)
		t.Cleanup(func() { c.kill(id) })
	}
	eventually := func(why string, ok func(addr string) bool) {
		t.Helper()
		for _, p := range peers {
			require.Eventually(t, func() bool { return ok(p.GRPCAddr) }, 2*time.Minute, 100*time.Millisecond, "%s: %s", p.ID, why)
		}
	}
	id := c.submit(c.leader(), sleeper(1, 0))
	require.False(t, reaches(after, both, peers[0].GRPCAddr), "the new authority is believed before anybody said so")

	for _, m := range c.ids {
		believe(m, both)
	}
	eventually("the new authority is not believed", func(addr string) bool { return reaches(after, both, addr) })
	for _, m := range c.ids {
		install(after, m, pki.RoleCoordinator)
	}
	install(after, "operator", pki.RoleCoordinator)
	eventually("the old certificate is shown", func(addr string) bool { return reaches(after, fresh, addr) })
	for _, m := range c.ids {
		believe(m, fresh)
	}
	eventually("the old authority is believed", func(addr string) bool { return !reaches(before, both, addr) })

	// A replica that starts anew has no connection that is left from before: the others reach it, and it them.
	last := c.follower()
	c.kill(last)
	c.start(last)
	require.Eventually(t, func() bool {
		job, err := c.jobs(last).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: id})
		return err == nil && job.GetJob().GetJobId() == id
	}, 2*time.Minute, 100*time.Millisecond, "the replica that was started anew is not one of them")
}
