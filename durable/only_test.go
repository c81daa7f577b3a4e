package durable

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reasons why a file may be written without this package.
const (
	ofATask    = "a task directory holds nothing that is needed after a power cut: docs/develop/agent.md, \"After a power cut\""
	ofALog     = "lines of a log: what the machine had not written is lost with it"
	ofALock    = "a lock: what it holds is of no interest"
	ofTheCache = "what is fetched can be fetched again, and is compared with its digest before it is used"
	ofNoDisk   = "no file on a disk"
	ofReading  = "only to read"
	ofATest    = "for tests"
	ofAScratch = "a copy that is removed when its process ends"
)

// elsewhere lists the functions that write, make or rename files without this package, as "folder/file.go function call", and
// why they may.
var elsewhere = map[string]string{
	"agent/lock.go lockDir os.OpenFile":                            ofALock,
	"agent/agent.go openTasks os.OpenFile":                         ofALog,
	"agent/fitness/fitness.go write os.WriteFile":                  "a probe, which removes it at once",
	"agent/inputs/inputs.go linkData os.Symlink":                   ofATask,
	"agent/inputs/inputs.go Write os.WriteFile":                    ofATask,
	"agent/inputs/resume.go WriteResume os.Symlink":                ofATask,
	"agent/inputs/upload.go WriteUpload os.Rename":                 ofATask,
	"agent/datacache/fetch.go publish os.Link":                     ofTheCache,
	"agent/datacache/objects.go discard os.Rename":                 ofTheCache,
	"agent/datacache/transfer.go fetch os.OpenFile":                ofTheCache,
	"agent/isolation/disk/quotatest/quotatest.go Dir os.WriteFile": ofATest,
	"agent/isolation/disk/quotatest/quotatest.go Dir os.Truncate":  ofATest,
	"agent/launch/disk.go Bound os.OpenFile":                       ofATask,
	"agent/launch/launch.go writeConfig os.WriteFile":              ofATask,
	"agent/shim/confine/user_linux.go GiveFile syscall.Open":       ofATask,
	"agent/shim/confine/user_linux.go MakeOwn syscall.Open":        "a directory, to read",
	"agent/shim/confine/user_linux.go MakeOwn syscall.Openat":      "a directory, to read",
	"agent/outputs/cleaner.go remove os.Rename":                    "what is being removed, which the next agent finds by its name",
	"agent/isolation/groups.go enable os.WriteFile":                ofNoDisk,
	"agent/isolation/groups.go leave os.WriteFile":                 ofNoDisk,
	"agent/runner/starter.go exec os.OpenFile":                     ofNoDisk,
	"agent/runner/starter.go writeSpec os.WriteFile":               ofATask,
	"agent/shim/confine/session_linux.go Lighten syscall.Open":     ofNoDisk,
	"agent/shim/again_linux.go protect os.WriteFile":               ofNoDisk,
	"agent/shim/probe_linux.go lacks syscall.Open":                 "/dev/null",
	"agent/shim/again_linux.go unprotect os.WriteFile":             ofNoDisk,
	"agent/shim/confine/group_linux.go NewGroup os.WriteFile":      ofNoDisk,
	"agent/shim/confine/group_linux.go KillGroup os.WriteFile":     ofNoDisk,
	"agent/taskfile/taskfile_linux.go Replace syscall.Renameat":    ofATask,
	"agent/tasklog/writer.go create os.OpenFile":                   ofALog,
	"agent/tasklog/writer.go reopen os.OpenFile":                   ofALog,
	"agent/safedir/safedir.go open unix.Openat2":                   ofReading,
	"agent/tunnels/terminal.go openTerminal unix.Open":             ofNoDisk,
	"cmd/mind/cli/simulate/cluster.go saveTrace os.OpenFile":       "a report, which can be made again",
	"devcluster/layout.go lock os.OpenFile":                        ofALock,
	"devcluster/process.go start os.OpenFile":                      ofALog,
	"devcluster/testrun/testrun.go hold os.OpenFile":               ofALock,
	"devcluster/testrun/testrun.go hold os.Rename":                 ofALock,
	"devcluster/testrun/testrun.go sweepIfDead os.OpenFile":        ofALock,
	"gateway/gatewaytest/dex.go StartDex os.WriteFile":             ofATest,
	"gateway/jobcache/mariadb/mariadb.go start os.Create":          ofALog,
	"raftnode/store/check_wal.go clearFrom os.OpenFile":            "it ends with a sync",
	"raftnode/verify/source.go copyFile os.Create":                 ofAScratch,
}

// notOurs lists folders whose programs keep no files that must survive: attacks, examples, tools, and tests of the documents.
var notOurs = []string{"chaos", "examples", "docs", "scaffold", "tools"}

// writes lists the functions that write, make or rename files, by the path of their package. A function that opens a
// file counts only if its flags may allow writing; see opensToWrite.
var writes = map[string][]string{
	"os":                    {"WriteFile", "Rename", "Create", "CreateTemp", "Truncate", "Link", "Symlink", "CopyFS", "OpenFile"},
	"io/ioutil":             {"WriteFile", "TempFile"},
	"syscall":               {"Open", "Openat", "Creat", "Rename", "Renameat", "Truncate", "Link", "Symlink", "Mknod"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2", "Creat", "Rename", "Renameat", "Renameat2", "Truncate", "Link", "Linkat", "Symlink", "Symlinkat", "Mknod"},
}

// flags lists the flags that open a file for writing.
var flags = []string{"O_WRONLY", "O_RDWR", "O_CREATE", "O_CREAT", "O_APPEND", "O_TRUNC", "O_TMPFILE"}

// TestNothingElseWritesFiles finds each call outside of this package that writes, makes or renames a file. A file that
// must survive a power cut is written by this package; the other calls are in the table above, each with its reason.
func TestNothingElseWritesFiles(t *testing.T) {
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if strings.HasPrefix(e.Name(), ".") && rel != "." || slices.Contains(notOurs, rel) || rel == "durable" || e.Name() == "testdata" || rel == "bin" || e.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, call := range writesOf(t, filepath.ToSlash(rel), text) {
				found[call] = true
			}
		}
		return nil
	}))
	for _, call := range slices.Sorted(maps.Keys(found)) {
		if elsewhere[call] == "" {
			t.Errorf("%s\n\twrites, makes or renames a file: use package durable; if it may be lost in a power cut, list it in durable/only_test.go with the reason", call)
		}
	}
	for _, call := range slices.Sorted(maps.Keys(elsewhere)) {
		if !found[call] {
			t.Errorf("%s\n\tis listed in durable/only_test.go, and is not there any more", call)
		}
	}
}

// writesOf lists the writing calls in one file, in the form of the table.
func writesOf(t *testing.T, name string, text []byte) (calls []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	packages := map[string]string{} // by their names in this file
	for _, i := range parsed.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		require.NoError(t, err)
		if writes[path] == nil {
			continue
		}
		as := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			as = i.Name.Name
		}
		require.NotEqual(t, ".", as, "%s: a call cannot be told to be of %s", name, path)
		packages[as] = path
	}
	for _, decl := range parsed.Decls {
		in := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		reads := map[ast.Expr]bool{}
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && !opensToWrite(call) {
				reads[call.Fun] = true
			}
			used, ok := n.(*ast.SelectorExpr)
			if !ok || strings.HasPrefix(used.Sel.Name, "Open") && reads[used] {
				return true
			}
			if of, ok := used.X.(*ast.Ident); ok && slices.Contains(writes[packages[of.Name]], used.Sel.Name) {
				calls = append(calls, fmt.Sprintf("%s %s %s.%s", name, in, of.Name, used.Sel.Name))
			}
			return true
		})
	}
	return calls
}

// opensToWrite reports whether the flags of a call may open a file for writing. Flags that are not constants may.
func opensToWrite(call *ast.CallExpr) bool {
	write, read := false, false
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, "O_") {
				write = write || slices.Contains(flags, id.Name)
				read = true
			}
			return true
		})
	}
	return write || !read
}

func TestWritesAreFound(t *testing.T) {
	const text = `package p
import ("os"; system "syscall"; "golang.org/x/sys/unix"; "example.org/other")
var remember = os.Rename
func reads() { os.Open("f"); os.OpenFile("f", os.O_RDONLY, 0); unix.Open("f", unix.O_RDONLY|unix.O_CLOEXEC, 0); other.WriteFile("f") }
func (t T) writes() {
	os.WriteFile("f", nil, 0)
	func() { system.Rename("a", "b") }()
	os.OpenFile("f", os.O_RDONLY, 0)
	os.OpenFile("f", os.O_RDWR|os.O_CREATE, 0)
	os.OpenFile("f", os.O_RDONLY, 0)
	unix.Openat2(1, "f", how)
}`
	require.ElementsMatch(t, []string{
		"p.go package os.Rename", "p.go writes os.WriteFile", "p.go writes system.Rename", "p.go writes os.OpenFile", "p.go writes unix.Openat2",
	}, writesOf(t, "p.go", []byte(text)))
}
