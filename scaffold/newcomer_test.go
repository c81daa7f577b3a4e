//go:build scaffold

package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/devcluster"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

// TestNewcomer follows "Add a command to a domain that is there" of docs/develop/extending.md in a copy of the tree, as
// somebody who does it for the first time: the scaffold, what a person adds, the tests, a cluster that answers the new call over
// REST and by its verb. It compiles most of Mind, so it is run by `make scaffold-test`.
func TestNewcomer(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	tree, before := copyOf(t, root)

	// 1. The scaffold.
	inTree(t, tree, "make", "command", "NAME=NudgeQueue")
	touched := changed(t, before, tree)
	t.Logf("%d files:\n%s", len(touched), strings.Join(touched, "\n"))
	require.LessOrEqual(t, len(touched), 12)
	marks, err := left(tree)
	require.NoError(t, err)
	require.Greater(t, len(marks), 10)
	fails(t, tree, "left to fill in: fsm/work/queueverbs/nudge_queue.go:", "go", "test", "./scaffold", "-run", "TestTree")
	fails(t, tree, mark, "go", "test", "./fsm", "-run", "TestNudgeQueue")

	// 2. The work of a person.
	fillIn(t, tree, "testdata/nudge_queue.txt")
	inTree(t, tree, "bin/tools/gofumpt", append([]string{"-w"}, goFiles(touched)...)...)
	inTree(t, tree, "make", "generate")
	require.Equal(t, touched, changed(t, before, tree), "nothing else has to change")

	// 3. The tests.
	inTree(t, tree, "go", "test", "./scaffold", "-run", "TestTree")
	inTree(t, tree, "go", "test", "./fsm", "-run", "TestNudgeQueue|Level|Golden|Story|Docs|Audit|Snapshot")
	inTree(t, tree, "go", "test", "./api/methods", "./cmd/mind/cli/cluster")
	inTree(t, tree, "go", "test", "./gateway", "-run", "TestRoutes|Permissions|Writes|OpenAPI|Endpoints|Secrets|nothingFromInside")
	inTree(t, tree, "go", "test", "./cmd/mind", "-run", "TestDocs")
	inTree(t, tree, "go", "test", "./docs", "-run", "TestPages_nameEveryAuditAction|Plain|Grammar")
	inTree(t, tree, "go", "vet", "./conformance", "./coordinator/admin")

	// 4. A cluster that answers.
	inTree(t, tree, "make", "build")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mind := filepath.Join(tree, "bin/mind")
	cluster, err := procs.Start(ctx, mind, t.TempDir(), "--agents", "1", "--gpus", "1xH100", "--http", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	info, err := devcluster.ReadInfo(cluster.Dir)
	require.NoError(t, err)
	call := func(method, path, body string) string {
		r, err := http.NewRequestWithContext(ctx, method, info.Gateway.URL+"/v1/modules/scaimind"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+info.Token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
		return string(text)
	}
	call("PUT", "/queues/research", `{"weight":2}`)
	require.Contains(t, call("POST", "/queues/research/nudge", `{"by":3}`), `"weight":5`)
	verb := exec.CommandContext(ctx, mind, "queues", "nudge", "research")
	verb.Env = append(os.Environ(), "MIND_DEV="+cluster.Dir)
	said, err := verb.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), "research: its weight is 6;")
	require.Equal(t, 2, strings.Count(call("GET", "/audit?action=queue.nudge", ""), `"action":"queue.nudge"`))
	refused := exec.CommandContext(ctx, mind, "queues", "nudge", "default")
	refused.Env = verb.Env
	said, err = refused.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "default", "the refusal of the state, in words")
}

// copyOf copies the files of the repository, and lends the copy the tools that are built already. It returns the texts by path.
func copyOf(t *testing.T, root string) (tree string, files map[string]string) {
	tree, files = t.TempDir(), map[string]string{}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	for path := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // it was removed, and not committed yet
		}
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		to := filepath.Join(tree, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, text, info.Mode().Perm()))
		files[path] = string(text)
	}
	tools := filepath.Join(root, "bin/tools")
	require.NoError(t, os.MkdirAll(tools, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "bin"), 0o755))
	require.NoError(t, os.Symlink(tools, filepath.Join(tree, "bin/tools")))
	return tree, files
}

// changed lists the files that a tree has now and had not before, or had otherwise, without those below bin.
func changed(t *testing.T, before map[string]string, tree string) []string {
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir(tree, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if kept, there := before[name]; !there || kept != string(text) {
			found[name] = true
		}
		return nil
	}))
	return slices.Sorted(maps.Keys(found))
}

func goFiles(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, ".pb.go") })
}

// fillIn puts the lines of a file of testdata in the places of the marks.
func fillIn(t *testing.T, tree, from string) {
	script, err := os.ReadFile(from)
	require.NoError(t, err)
	_, script, _ = bytes.Cut(script, []byte("\n\n"))
	var path, before string
	var lines []string
	at := -1
	keep := func() {
		if path != "" {
			require.NoError(t, os.WriteFile(filepath.Join(tree, path), []byte(strings.Join(lines, "\n")), 0o600))
		}
	}
	for line := range strings.SplitSeq(string(script), "\n") {
		switch {
		case strings.HasPrefix(line, "== "):
			keep()
			path = line[3:]
			text, err := os.ReadFile(filepath.Join(tree, path))
			require.NoError(t, err)
			lines = strings.Split(string(text), "\n")
		case strings.HasPrefix(line, "- "):
			at = slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, mark+" "+line[2:]) })
			require.GreaterOrEqual(t, at, 0, "%s asks for no %q", path, line[2:])
			before, _, _ = strings.Cut(lines[at], mark)
			lines = slices.Delete(lines, at, at+1)
		case strings.HasPrefix(line, "+"):
			lines = slices.Insert(lines, at, strings.Replace(line[1:], "...", before, 1))
			at++
		}
	}
	keep()
	marks, err := left(tree)
	require.NoError(t, err)
	require.Empty(t, marks, "testdata supplies nothing for these")
}

// inTree runs a command in the copy, and returns what it prints.
func inTree(t *testing.T, tree, name string, args ...string) string {
	t.Helper()
	begun := time.Now()
	out, err := commandIn(t, tree, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	t.Logf("%s %s: %s", name, strings.Join(args, " "), time.Since(begun).Round(time.Second))
	return string(out)
}

// fails runs a command that has to fail with a text.
func fails(t *testing.T, tree, says, name string, args ...string) {
	t.Helper()
	out, err := commandIn(t, tree, name, args...).CombinedOutput()
	require.Error(t, err, "%s %s", name, strings.Join(args, " "))
	require.Contains(t, string(out), says)
	require.NotContains(t, string(out), "build failed")
}

func commandIn(t *testing.T, tree, name string, args ...string) *exec.Cmd {
	if strings.Contains(name, "/") {
		name = filepath.Join(tree, name)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = tree
	return cmd
}
