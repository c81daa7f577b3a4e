package contain

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

var (
	update = flag.Bool("update", false, "write the table into docs/operate/isolation.md")
	chosen = flag.String("storm", ".", "`regexp` of the storms to let rage")
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

const (
	page = "../../docs/operate/isolation.md"
	base = "/var/lib/mind-contain-"
)

// build makes the program that is attacked.
func build(ctx context.Context, t *testing.T) string {
	t.Helper()
	mind := filepath.Join(t.TempDir(), "mind")
	text, err := exec.CommandContext(ctx, "go", "build", "-o", mind, "../../cmd/mind").CombinedOutput()
	require.NoError(t, err, string(text))
	return mind
}

// The table of the docs says what was possible at each level when it was made: this plays all attacks again.
func TestAttacks(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("starts clusters")
	case os.Geteuid() != 0:
		t.Skip("only root can give tenants users")
	case confine.LandlockVersion() < 6:
		t.Skip("the kernel has no Landlock with scopes")
	}
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("some attacks are in Python: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	mind := build(ctx, t)
	// The walls around paths hold for directories of the agent that are outside of those of jobs.
	require.NoError(t, Sweep(base+"*"))
	var outcomes []Outcome
	for i, column := range Columns {
		out, err := Run(ctx, mind, fmt.Sprintf("%s%d", base, os.Getpid()), column)
		require.NoError(t, err, column.Name)
		outcomes = append(outcomes, out)
		t.Logf("%d of %d: %s", i+1, len(Columns), column.Name)
	}
	table := Table(Columns, outcomes)
	docs, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(docs), "| a job tries to |")
	require.True(t, found, "the table is gone")
	_, after, _ := strings.Cut(rest, "\n\n")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+table+"\n"+after), 0o644))
		return
	}
	require.Contains(t, string(docs), table, "run the test with -update, and look at the difference")
}

// While a job takes all that it gets of a node, the agent answers and the node stays in the cluster. The lease of the job ends when all
// of its processes are gone, and the next job gets its GPU.
func TestStorms(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("starts clusters")
	case os.Geteuid() != 0:
		t.Skip("control groups need root here")
	}
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("some storms are in Python: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	mind := build(ctx, t)
	require.NoError(t, Sweep(base+"*"))
	for _, level := range []string{"cgroup", "full"} {
		all, err := Storm(ctx, mind, fmt.Sprintf("%s%d", base, os.Getpid()), level, regexp.MustCompile(*chosen))
		require.NoError(t, err, level)
		for _, w := range all {
			require.Zero(t, w.Left, "%s: %s: the job was over, and processes of it were alive", level, w.Name)
		}
		t.Logf("%s:\n%s", level, Report(all))
	}
}
