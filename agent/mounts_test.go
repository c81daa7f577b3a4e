package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A job has its mounts at the level full, below the roots of the node, and learns why it has none elsewhere.
func TestMountsOfAJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
	roots := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(roots, "file"), []byte("x\n"), 0o644))
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Isolation, cfg.MountRoots = string(isolation.Full), []string{roots + ":ro"}
	// The directories of the test lie in that for temporary files.
	cfg.Mounts = []string{os.TempDir() + ":" + os.TempDir() + ":rw"}
	inProcess(t, cfg)
	require.Equal(t, isolation.MountsJobs, l.hello(0).GetLabels()[isolation.MountsLabel])
	one := order("sh", "-c", "test -e /mnt/file && ! touch /mnt/new && exit 7")
	one.Spec.Job.GetCommandConfig().Mounts = []string{roots + ":/mnt"}
	l.want(one)
	require.EqualValues(t, 7, l.ended(one.GetTask()).GetExitCode(), l.ended(one.GetTask()).GetErrorMessage())
	other := order("true")
	other.Spec.Job.GetCommandConfig().Mounts = []string{"/usr:/mnt"}
	l.want(other)
	ended := l.ended(other.GetTask())
	require.Equal(t, v1.ErrorType_LAUNCH_FAILED, ended.GetErrorType())
	require.Contains(t, ended.GetErrorMessage(), "mount /usr:/mnt: the node lets jobs mount only files and directories below "+roots)
}
