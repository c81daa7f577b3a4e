package agent

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

// The test binary contains all imports of the agent, among them gRPC and Prometheus. As a shim it must not initialise
// them: see the comment of package shim.
func TestAShimDoesNotInitialiseWhatItDoesNotNeed(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", shim.Command, "--dir", t.TempDir())
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "there is no task in that directory")
	require.Contains(t, string(out), "mind shim:", "it did not run as a shim: %s", out)
	require.Contains(t, string(out), "init os ", "nothing was traced: %s", out)
	for line := range strings.Lines(string(out)) {
		for _, heavy := range []string{
			"google.golang.org/protobuf/", "google.golang.org/grpc ", "google.golang.org/grpc/internal/binarylog", "github.com/prometheus/",
			"github.com/hashicorp/", "net ", "net/http ", "crypto/tls ", "reflect ", "fmt ", "log/slog ", "encoding/json ", "golang.org/x/",
		} {
			require.False(t, strings.HasPrefix(line, "init "+heavy), "a shim initialised %s", line)
		}
	}
}
