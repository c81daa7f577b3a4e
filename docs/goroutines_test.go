package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page about goroutines must have a heading for each package with goroutines or locks, and for no other package.
func TestGoroutines_everyPackageIsNamed(t *testing.T) {
	_, list, found := strings.Cut(read(t, "develop/goroutines.md"), "\n## Goroutines by package\n")
	require.True(t, found, "the list of packages is gone")
	list, _, _ = strings.Cut(list, "\n## ")
	named := map[string]bool{} // used
	for _, h := range regexp.MustCompile("(?m)^### `([a-z0-9/.]+)`$").FindAllStringSubmatch(list, -1) {
		named[h[1]] = false
	}
	for _, pkg := range concurrent(t) {
		under := false
		for name := range named {
			if below, ok := strings.CutSuffix(name, "/..."); pkg == name || ok && (pkg == below || strings.HasPrefix(pkg, below+"/")) {
				named[name], under = true, true
			}
		}
		require.Truef(t, under, "docs/develop/goroutines.md does not name %s", pkg)
	}
	for name, used := range named {
		require.Truef(t, used, "docs/develop/goroutines.md names %s, which has no goroutine and no lock", name)
	}
}

// concurrent returns the packages with goroutines or locks.
func concurrent(t *testing.T) []string {
	var all []string
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		pkg := strings.TrimPrefix(filepath.Dir(path), "../")
		ast.Inspect(file, func(n ast.Node) bool {
			has := false
			switch n := n.(type) {
			case *ast.GoStmt:
				has = true
			case *ast.SelectorExpr:
				has = slices.Contains([]string{"Go", "AfterFunc", "Mutex", "RWMutex"}, n.Sel.Name)
			}
			if has && !slices.Contains(all, pkg) {
				all = append(all, pkg)
			}
			return true
		})
	}
	require.Greater(t, len(all), 30)
	return all
}
