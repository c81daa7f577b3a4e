package fsm_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	goparser "go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowMark on the line of a range over a map says that somebody looked: no order can leak from it.
const allowMark = "order-free"

// forbiddenImports would bring in a clock, chance, the outside world or other goroutines.
var forbiddenImports = []string{
	"math/rand", "math/rand/v2", "crypto/rand", "os", "os/exec", "net", "net/http", "log", "log/slog", "sync",
	"context", "runtime", "syscall", "unsafe", "maps", "hash/maphash", "testing",
}

// forbiddenCalls are of packages that are good for something else.
var forbiddenCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"iter": {"Pull", "Pull2"},
	"fmt":  {"Print", "Printf", "Println"},
}

// TestPurity_applyDependsOnNothingElse reads this package and all below it, and refuses whatever could make two replicas
// differ.
func TestPurity_applyDependsOnNothingElse(t *testing.T) {
	packages := nonTestFiles(t)
	require.Subset(t, slices.Collect(maps.Keys(packages)), []string{".", "kernel", "access", "catalog", "work", "work/tables", "work/jobverbs"})
	for dir, files := range packages {
		found := impurities(t, files)
		require.Empty(t, found, "%s: %s", dir, strings.Join(found, "\n"))
	}
}

// TestPurity_seesWhatItShould holds that the check above can fail.
func TestPurity_seesWhatItShould(t *testing.T) {
	tests := map[string]string{
		"a clock":           `import "time"; var x = time.Now()`,
		"a clock, renamed":  `import tm "time"; var x = tm.Now()`,
		"chance":            `import "math/rand"; var x = rand.Int()`,
		"the file system":   `import "os"; var x = os.Args`,
		"a goroutine":       `func f() { go f() }`,
		"a map's order":     `func f(m map[int]int) (s []int) { for k := range m { s = append(s, k) }; return }`,
		"a named map":       `type m map[int]int; func f(x m) (s []int) { for k := range x { s = append(s, k) }; return }`,
		"a channel":         `func f(c chan int) int { return <-c }`,
		"a select":          `func f(c chan int) { select { case c <- 1: default: } }`,
		"a coroutine":       `import "iter"; func f(s iter.Seq[int]) { iter.Pull(s) }`,
		"iterating by maps": `import "maps"; func f(m map[int]int) { for range maps.Keys(m) {} }`,
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, impurities(t, map[string]string{"x.go": "package fsm\n" + body}))
		})
	}
	require.Empty(t, impurities(t, map[string]string{
		"x.go": "package fsm\nfunc f(m map[int]int) (n int) {\n\tfor _, v := range m { // order-free: a sum\n\t\tn += v\n\t}\n\treturn\n}",
	}))
}

// sources knows the types of the standard library and of the packages here. Names from elsewhere (enums, trees) are left
// unknown: that is quick, and a range over something unknown is reported.
type sources struct {
	standard types.Importer
	here     map[string]*types.Package
}

const module = "github.com/mindcoordinator/mind/fsm"

func (s sources) Import(path string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(path, module)
	switch {
	case !ours && strings.Contains(path, "."):
		return nil, errors.New("not of the standard library")
	case !ours:
		return s.standard.Import(path)
	case s.here[path] != nil:
		return s.here[path], nil
	}
	fset := token.NewFileSet()
	names, err := filepath.Glob("." + dir + "/*.go")
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := goparser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	conf := types.Config{Importer: s, Error: func(error) {}}
	p, _ := conf.Check(path, fset, parsed, nil) // what it takes from elsewhere stays unknown
	p.MarkComplete()
	s.here[path] = p
	return p, nil
}

var known = sources{standardLibrary(), map[string]*types.Package{}}

// standardLibrary reads the sources of the standard library. A test that was built with -trimpath does not know where they
// are: the go command says so.
func standardLibrary() types.Importer {
	if build.Default.GOROOT == "" {
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			panic(fmt.Sprintf("where is the standard library? go env GOROOT: %v", err))
		}
		build.Default.GOROOT = strings.TrimSpace(string(root))
	}
	return importer.ForCompiler(token.NewFileSet(), "source", nil)
}

// nonTestFiles has the source of each package, by folder and file.
func nonTestFiles(t *testing.T) map[string]map[string]string {
	packages := map[string]map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if packages[filepath.Dir(path)] == nil {
			packages[filepath.Dir(path)] = map[string]string{}
		}
		packages[filepath.Dir(path)][path] = string(src)
		return err
	}))
	return packages
}

func impurities(t *testing.T, files map[string]string) []string {
	fset := token.NewFileSet()
	var parsed []*ast.File
	var found []string
	lines := map[string][]string{}
	for name, src := range files {
		f, err := goparser.ParseFile(fset, name, src, goparser.ParseComments)
		require.NoError(t, err)
		parsed = append(parsed, f)
		lines[name] = strings.Split(src, "\n")
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: known, Error: func(error) {}}
	// Sources that do not type-check (an unused import of a test above) do not matter: the types of the rest are known.
	_, _ = conf.Check("fsm", fset, parsed, info)

	report := func(n ast.Node, what string) {
		p := fset.Position(n.Pos())
		found = append(found, p.String()+": "+what)
	}
	for _, f := range parsed {
		for _, imp := range f.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			for _, bad := range forbiddenImports {
				if path == bad {
					report(imp, "imports "+path)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				report(n, "starts a goroutine")
			case *ast.SelectStmt:
				report(n, "selects")
			case *ast.SendStmt:
				report(n, "sends on a channel")
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					report(n, "receives from a channel")
				}
			case *ast.SelectorExpr:
				obj := info.Uses[n.Sel]
				if obj == nil || obj.Pkg() == nil {
					return true
				}
				for _, bad := range forbiddenCalls[obj.Pkg().Path()] {
					if obj.Name() == bad {
						report(n, "uses "+obj.Pkg().Path()+"."+bad)
					}
				}
			case *ast.RangeStmt:
				typ := info.TypeOf(n.X)
				if typ == nil || typ == types.Typ[types.Invalid] {
					report(n, "ranges over something of unknown type")
					return true
				}
				if _, isMap := typ.Underlying().(*types.Map); isMap {
					p := fset.Position(n.Pos())
					if !strings.Contains(lines[p.Filename][p.Line-1], allowMark) {
						report(n, "ranges over a map")
					}
				}
			}
			return true
		})
	}
	return found
}
