package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// starters lists packages with which tests start processes.
var starters = []string{"os/exec", module + "/archive/s3server", module + "/chaos/procs", module + "/chaos/testbed", module + "/chaos/vm", module + "/gateway/jobcache/mariadb"}

// startNothing lists packages whose tests import a starter but start no process, or only processes that end by
// themselves.
var startNothing = map[string]string{
	"docs":                     "asks go and git, which end",
	"fsm/level":                "asks go, and runs what ends",
	"fsm":                      "asks go, which ends",
	"raftnode":                 "asks go, which ends",
	"chaos/scenario":           "its tests have a cluster in this process",
	"chaos/scenario/users":     "its tests read what a crowd has noted",
	"gateway/jobcache/mariadb": "its test finds no server",
	"chaos/vm/guest":           "its tests run commands that end",
	"cmd/mind/cli/access":      "its tests run a command that ends",
	"chaos/vm/power":           "its tests start no machine",
	"chaos/vm/power/ledger":    "its tests have a cluster in this process",
}

// Processes that a test starts must end with it, even if it is killed. So packages whose tests start processes use
// testrun.Main, as do the programs that start clusters to attack, measure or show them.
func TestArchitecture_whatTestsStartEndsWithThem(t *testing.T) {
	const testrun = module + "/devcluster/testrun"
	starts := func(imports ...string) bool {
		return slices.ContainsFunc(imports, func(i string) bool { return slices.Contains(starters, i) })
	}
	excused := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		tests := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		if p.Name == "main" && (room(p.ImportPath) == "chaos" || room(p.ImportPath) == "examples") && starts(p.Imports...) {
			require.Containsf(t, p.Imports, testrun, "%s starts processes, which outlive it when it is killed", rel)
		}
		if len(tests) == 0 || !starts(slices.Concat(p.Imports, p.TestImports, p.XTestImports)...) {
			continue
		}
		if startNothing[rel] != "" {
			excused[rel] = true
			continue
		}
		require.Truef(t, slices.ContainsFunc(tests, func(file string) bool {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			return strings.Contains(string(text), "testrun.Main(") || p.ImportPath == testrun && strings.Contains(string(text), "Main(m.Run)")
		}), "the tests of %s start processes, which outlive them when they are killed: let its TestMain go through testrun.Main", rel)
	}
	for rel := range startNothing {
		require.Truef(t, excused[rel], "%s needs no excuse", rel)
	}
}
