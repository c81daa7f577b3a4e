package contain

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

var update = flag.Bool("update", false, "write the table into docs/operate/isolation.md")

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

const page = "../../docs/operate/isolation.md"

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
	mind := filepath.Join(t.TempDir(), "mind")
	build := exec.CommandContext(ctx, "go", "build", "-o", mind, "../../cmd/mind")
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	// The walls around paths hold for directories of the agent that are outside of those of jobs.
	const base = "/var/lib/mind-contain-"
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
