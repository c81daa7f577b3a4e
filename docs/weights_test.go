package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const weightsFile = "develop/weights.txt"

// weight is the size of the part of a module that is compiled.
type weight struct {
	kB       int // of Go and assembler source
	packages int
}

// weightsOf returns the weights of the modules that a program compiles for linux/amd64, on any machine. Only sources
// count, so the build cache makes no difference. The standard library is left out, because it depends on the version of
// Go. The tag shim_embedded is not set: it adds no import, and needs a shim that was built.
func weightsOf(t *testing.T, program string) map[string]weight {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Module,Standard,GoFiles,SFiles", program)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	bytes := map[string]int64{}
	packages := map[string]int{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir string
			Module          struct{ Path string }
			Standard        bool
			GoFiles, SFiles []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		if p.Standard || p.Module.Path == module {
			continue
		}
		packages[p.Module.Path]++
		for _, file := range slices.Concat(p.GoFiles, p.SFiles) {
			info, err := os.Stat(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			bytes[p.Module.Path] += info.Size()
		}
	}
	weights := map[string]weight{}
	for path, n := range packages {
		weights[path] = weight{int((bytes[path] + 500) / 1000), n}
	}
	return weights
}

func sum(weights map[string]weight) (total weight) {
	for _, w := range weights {
		total.kB += w.kB
		total.packages += w.packages
	}
	return total
}

const weightsHead = `# What mind compiles of other modules on linux/amd64, without cgo: kB of source, packages. docs/develop/weights.md says what
# it is for; go test ./docs -run Weights -update writes it.
`

func writeWeights(weights map[string]weight) string {
	var b strings.Builder
	b.WriteString(weightsHead)
	line := func(w weight, name string) { fmt.Fprintf(&b, "%6d %4d %s\n", w.kB, w.packages, name) }
	line(sum(weights), "total")
	for _, path := range slices.Sorted(maps.Keys(weights)) {
		line(weights[path], path)
	}
	return b.String()
}

func readWeights(text string) (map[string]weight, error) {
	weights := map[string]weight{}
	var total weight
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var w weight
		var path string
		if _, err := fmt.Sscanf(line, "%d %d %s", &w.kB, &w.packages, &path); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		if path == "total" {
			total = w
			continue
		}
		weights[path] = w
	}
	if total != sum(weights) {
		return nil, fmt.Errorf("the total is %v, and the modules have %v", total, sum(weights))
	}
	return weights, nil
}

// heavier returns the differences that are larger than those of a patch release: a module that is new or gone, one that
// changed by more than a tenth, and a change of the sum by more than a fiftieth.
func heavier(was, is map[string]weight) []string {
	var found []string
	differs := func(name string, was, is, tolerated int) {
		if max(was-is, is-was) > tolerated {
			found = append(found, fmt.Sprintf("%s: %d kB, was %d", name, is, was))
		}
	}
	for path, w := range is {
		before, known := was[path]
		if !known {
			found = append(found, fmt.Sprintf("%s: %d kB, is new", path, w.kB))
			continue
		}
		differs(path, before.kB, w.kB, max(before.kB/10, 20))
	}
	for path := range was {
		if _, stays := is[path]; !stays {
			found = append(found, path+": is not compiled")
		}
	}
	differs("total", sum(was).kB, sum(is).kB, sum(was).kB/50)
	slices.Sort(found)
	return found
}

// TestWeights_areKnown compares the weights with a file, so that the diff of a change shows how much a dependency adds
// to every build.
func TestWeights_areKnown(t *testing.T) {
	is := weightsOf(t, "./cmd/mind")
	if *update {
		require.NoError(t, os.WriteFile(weightsFile, []byte(writeWeights(is)), 0o644))
		return
	}
	was, err := readWeights(read(t, weightsFile))
	require.NoError(t, err)
	require.Empty(t, heavier(was, is), "docs/%s says something else than go.mod and the imports: run go test ./docs -run Weights -update, and look at what changed", weightsFile)
}

func TestWeights_whatDiffersEnough(t *testing.T) {
	was := map[string]weight{"a": {1000, 3}, "b": {3000, 5}, "c": {40, 1}, "d": {40, 1}}
	text := writeWeights(was)
	again, err := readWeights(text)
	require.NoError(t, err)
	require.Equal(t, was, again)
	_, err = readWeights(strings.Replace(text, "1000", "1001", 1))
	require.ErrorContains(t, err, "the total is")
	_, err = readWeights(text + "a b c\n")
	require.ErrorContains(t, err, "line")
	for says, change := range map[string]func(map[string]weight){
		"":                         func(w map[string]weight) { w["a"], w["b"], w["c"] = weight{1030, 4}, weight{3020, 5}, weight{60, 2} },
		"d: is not compiled":       func(w map[string]weight) { delete(w, "d") },
		"e: 1 kB, is new":          func(w map[string]weight) { w["e"] = weight{1, 1} },
		"c: 61 kB, was 40":         func(w map[string]weight) { w["c"] = weight{61, 1} },
		"c: 19 kB, was 40":         func(w map[string]weight) { w["c"] = weight{19, 1} },
		"total: 4170 kB, was 4080": func(w map[string]weight) { w["a"] = weight{1090, 3} },
	} {
		is := maps.Clone(was)
		change(is)
		require.Equal(t, says, strings.Join(heavier(was, is), "; "))
	}
}
