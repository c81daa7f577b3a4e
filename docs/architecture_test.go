package docs

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/mindcoordinator/mind"

type goPackage struct {
	ImportPath string
	Dir        string
	Doc        string
	Name       string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string

	TestGoFiles, XTestGoFiles, TestImports, XTestImports []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Name,GoFiles,CgoFiles,Imports,TestGoFiles,XTestGoFiles,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []goPackage
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

// roomRule is a row of the table of rooms.
type roomRule struct {
	name string
	may  []string // rooms that it may import
}

// rooms reads the table of rooms in docs/architecture.md, in its order.
func rooms(t *testing.T) []roomRule {
	t.Helper()
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| folder | owns | may import |\n|---|---|---|\n")
	require.True(t, found, "the table of rooms is gone")
	name := regexp.MustCompile("`([a-z]+)`")
	var rules []roomRule
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			break
		}
		room := name.FindStringSubmatch(cells[1])
		require.NotNil(t, room, line)
		rule := roomRule{name: room[1]}
		for _, m := range name.FindAllStringSubmatch(cells[3], -1) {
			rule.may = append(rule.may, m[1])
		}
		rules = append(rules, rule)
	}
	return rules
}

func room(importPath string) string {
	rest := strings.TrimPrefix(importPath, module+"/")
	top, _, _ := strings.Cut(rest, "/")
	return top
}

func TestArchitecture_importsFollowTheTable(t *testing.T) {
	allowed := map[string][]string{}
	for _, r := range rooms(t) {
		allowed[r.name] = r.may
	}
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		from := room(p.ImportPath)
		if from == "docs" {
			continue
		}
		may, ok := allowed[from]
		require.Truef(t, ok, "%s is in no room of docs/architecture.md", p.ImportPath)
		seen[from] = true
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module+"/") {
				continue
			}
			to := room(imported)
			if to != from {
				require.Truef(t, slices.Contains(may, to), "%s imports %s: %s may not import %s (docs/architecture.md)", p.ImportPath, imported, from, to)
			}
		}
	}
	for r := range allowed {
		require.Truef(t, seen[r], "room %s of docs/architecture.md has no code", r)
	}
}

// Chaos is a tool for users (`mind chaos`). Nothing that runs in a cluster may depend on it.
func TestArchitecture_nobodyImportsChaosButTheCommandLine(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, module+"/chaos") {
				require.Containsf(t, []string{"chaos", "cmd"}, room(p.ImportPath), "%s imports the attack", p.ImportPath)
			}
		}
	}
}

// Each of these libraries may be imported only in the given folders, so that the decision how it is used is in one
// place.
func TestArchitecture_librariesStayWhereTheyBelong(t *testing.T) {
	only := map[string][]string{
		"github.com/hashicorp/raft":       {"raftnode", "chaos"},
		"github.com/hashicorp/memberlist": {"gossip", "chaos/virtual"}, // chaos: its network in memory
		"github.com/gorilla/mux":          {"gateway"},
		"github.com/NVIDIA/go-nvml":       {"agent/device/nvml"},
		"github.com/google/btree":         {"fsm"},
		"github.com/minio/minio-go":       {"archive", "agent/datacache"},
		"github.com/u-root/u-root":        {"chaos/vm"},
	}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			for lib, folders := range only {
				if imported == lib || strings.HasPrefix(imported, lib+"/") || strings.HasPrefix(imported, lib+"-") {
					ok := slices.ContainsFunc(folders, func(f string) bool { return rel == f || strings.HasPrefix(rel, f+"/") })
					require.Truef(t, ok, "%s imports %s, which belongs in %v", rel, imported, folders)
				}
			}
		}
	}
}

func TestArchitecture_everyPackageSaysWhatItIs(t *testing.T) {
	for _, p := range listPackages(t) {
		if len(p.GoFiles)+len(p.CgoFiles) > 0 && !strings.HasSuffix(p.Name, "_test") {
			require.NotEmptyf(t, p.Doc, "%s has no package comment", p.ImportPath)
		}
		for _, bad := range []string{"util", "utils", "common", "helpers", "manager", "misc"} {
			require.NotEqualf(t, bad, p.Name, "%s", p.ImportPath)
		}
	}
}

// A longer file should be split, because it has more than one subject.
const maxFileLines = 500

func TestArchitecture_filesStaySmall(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "..").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.LessOrEqualf(t, strings.Count(string(text), "\n"), maxFileLines, "%s holds more than one idea", file)
	}
}
