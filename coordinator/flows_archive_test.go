package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Contents go to the archive under the published keys. Old versions are read from there, by each coordinator and after the death of the
// leader; the current one needs no archive. A content that is not what was saved is shown to nobody.
func TestFlows_contentsAreArchived(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.FlowArchive.URL = "file://" + dir })
		at := c.leader()
		f := c.flow(at, `{"n":0}`)
		read := func(at, version string) (string, error) {
			got, err := c.flows(at).GetFlowVersion(c.as("ann"), &v1.GetFlowVersionRequest{FlowId: f.GetId(), Version: version})
			return got.GetVersion().GetContent(), err
		}
		key := func(version string) string {
			return filepath.Join(dir, "flows", "t1", f.GetId(), "v"+version+".flow.json")
		}
		save := func(at string, n int) {
			r, err := c.flows(at).UpdateFlow(c.as("ann"), &v1.UpdateFlowRequest{FlowId: f.GetId(), BasedOn: fmt.Sprintf("0.1.%d", n-1), Content: fmt.Sprintf(`{"n":%d}`, n)})
			require.NoError(t, err)
			require.Nil(t, r.GetFault())
		}
		save(at, 1)
		c.kill(at)
		at = c.leader()
		save(at, 2)
		for n := range 3 {
			file := key(fmt.Sprintf("0.1.%d", n))
			c.eventually("the archive has "+file, func() bool { _, err := os.Stat(file); return err == nil })
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"id":%q,"version":"0.1.%d","n":%d}`, f.GetId(), n, n), string(text))
		}
		time.Sleep(time.Minute) // Until all is noted, in the time of the bubble.
		for _, id := range c.running() {
			for n := range 3 {
				text, err := read(id, fmt.Sprintf("0.1.%d", n))
				require.NoError(t, err)
				require.JSONEq(t, fmt.Sprintf(`{"id":%q,"version":"0.1.%d","n":%d}`, f.GetId(), n, n), text)
			}
		}

		stored, err := os.ReadFile(key("0.1.0"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(key("0.1.0"), []byte(strings.Replace(string(stored), `"n":0`, `"n":7`, 1)), 0o600))
		_, err = read(at, "0.1.0")
		require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
		require.NoError(t, os.Remove(key("0.1.0")))
		_, err = read(at, "0.1.0")
		require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err))
		require.ErrorContains(t, err, "is lost: the archive of flows does not have flows/t1/"+f.GetId()+"/v0.1.0.flow.json")
		require.NoError(t, os.Remove(key("0.1.2")))
		_, err = read(at, "0.1.2")
		require.NoError(t, err, "the current content is in the state, too")
	})
}

// As long as the archive cannot be written, nothing leaves the state.
func TestFlows_stayWithoutTheirArchive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mount")
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, func(config *Config) { config.FlowArchive.URL = "file://" + dir })
		at := c.leader()
		f := c.flow(at, `{"n":0}`)
		_, err := c.flows(at).UpdateFlow(c.as("ann"), &v1.UpdateFlowRequest{FlowId: f.GetId(), BasedOn: "0.1.0", Content: `{"n":1}`})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		read := func() (*v1.GetFlowVersionResponse, error) {
			return c.flows(at).GetFlowVersion(c.as("ann"), &v1.GetFlowVersionRequest{FlowId: f.GetId(), Version: "0.1.0"})
		}
		_, err = read()
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(dir, 0o700)) // The share is mounted.
		file := filepath.Join(dir, "flows", "t1", f.GetId(), "v0.1.0.flow.json")
		c.eventually("the archive has "+file, func() bool { _, err := os.Stat(file); return err == nil })
		_, err = read()
		require.NoError(t, err)
	})
}
