package coordinator

import (
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

// The authority of three running coordinators is replaced: files are copied, and nothing is restarted. After each round
// the replicas reach each other on new connections, and gateways reach them.
func TestTLS_anAuthorityIsReplacedWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCluster(t)
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
			files, err := ca.Issue(home, id, role, "10.0.0.1", "10.0.0.2", "10.0.0.3")
			require.NoError(t, err)
			files.CA = filepath.Join(home, id+"-ca.pem")
			return files
		}
		believe := func(id string, authorities []byte) { write(filepath.Join(home, id+"-ca.pem"), authorities) }

		// reaches returns an error if a gateway with a certificate of an authority cannot open a connection, or does
		// not trust the server.
		reaches := func(ca *pki.CA, believes []byte, addr string) error {
			dir := t.TempDir()
			files, err := ca.Issue(dir, "gateway", pki.RoleGateway)
			require.NoError(t, err)
			files.CA = filepath.Join(dir, "believed.pem")
			write(files.CA, believes)
			keys, err := pki.Open(files, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			conn := c.dial(addr, keys.Client(pki.RoleCoordinator).Credentials())
			defer conn.Close()
			_, err = v1.NewClusterServiceClient(conn).GetCluster(c.ctx("t1", ""), &v1.GetClusterRequest{})
			return err
		}
		// The test calls as another coordinator, because no other role may make all of its calls.
		operator := install(before, "operator", pki.RoleCoordinator)
		believe("operator", both)
		keys, err := pki.Open(operator, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		c.place(3, func(config *Config) {
			files := install(before, config.ID, pki.RoleCoordinator)
			believe(config.ID, old)
			config.CertFile, config.KeyFile, config.CAFile = files.Cert, files.Key, files.CA
		})
		var addrs []string
		for _, id := range c.ids {
			m := c.members[id]
			addrs = append(addrs, m.config.GRPCAddr)
			m.conn = c.dial(m.config.GRPCAddr, keys.Client(pki.RoleCoordinator).Credentials())
			c.start(id)
		}
		eventually := func(why string, reach func(addr string) error, refuse bool) {
			t.Helper()
			for _, addr := range addrs {
				var err error
				for end := time.Now().Add(longstop); ; time.Sleep(time.Second / 4) {
					if err = reach(addr); (err != nil) == refuse {
						break
					}
					require.True(t, time.Now().Before(end), "%s: %s: %v", addr, why, err)
				}
			}
		}
		id := c.submit(c.leader(), sleeper(1, 0))
		require.Error(t, reaches(after, both, addrs[0]), "the new authority is believed before anybody said so")

		for _, m := range c.ids {
			believe(m, both)
		}
		eventually("the new authority is not believed", func(addr string) error { return reaches(after, both, addr) }, false)
		for _, m := range c.ids {
			install(after, m, pki.RoleCoordinator)
		}
		install(after, "operator", pki.RoleCoordinator)
		eventually("the old certificate is shown", func(addr string) error { return reaches(after, fresh, addr) }, false)
		for _, m := range c.ids {
			believe(m, fresh)
		}
		eventually("the old authority is believed", func(addr string) error { return reaches(before, both, addr) }, true)

		// A restarted replica has no old connections: the others reach it, and it reaches them.
		last := c.follower()
		c.kill(last)
		c.start(last)
		job, err := c.jobs(last).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: id}, grpc.WaitForReady(true))
		require.NoError(t, err, "the replica that was started again is not one of them")
		require.Equal(t, id, job.GetJob().GetJobId())
	})
}
