package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMutants_areWhole(t *testing.T) {
	names := map[string]bool{}
	promise := regexp.MustCompile(`^(I\d+|R[123]|L1|[a-z-]+\.md)$`)
	for _, m := range mutants {
		require.NotContains(t, names, m.Name)
		names[m.Name] = true
		require.Regexp(t, promise, m.Breaks, m.Name)
		if strings.HasSuffix(m.Breaks, ".md") {
			require.NotEmpty(t, pageLink("../..", m.Breaks), m.Name)
		}
		for _, s := range []string{m.Name, m.What, m.File, m.Old, m.Package} {
			require.NotEmpty(t, s, m.Name)
		}
		require.NotEqual(t, m.Old, m.New, m.Name)
		require.NotEmpty(t, m.Tests, m.Name)
	}
}

// Each mutant fits the present code, and the tests that must notice it exist.
func TestMutants_fitTheCode(t *testing.T) {
	const root = "../.."
	for _, m := range mutants {
		_, err := m.change(root)
		require.NoError(t, err, m.Name)
		var tests []byte
		files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			tests = append(tests, text...)
		}
		for _, name := range m.Tests {
			top, _, _ := strings.Cut(name, "/")
			require.Containsf(t, string(tests), "func "+top+"(", "%s: %s has no such test", m.Name, m.Package)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the list of docs/develop/mutants.md")

func TestDocs_haveTheList(t *testing.T) {
	const name = "../../docs/develop/mutants.md"
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	text := string(raw)
	if *update {
		list := regexp.MustCompile("(?m)^- `(.*\n)+")
		require.Len(t, list.FindAllString(text, -1), 1)
		text = list.ReplaceAllLiteralString(text, page("../..", mutants))
		text = regexp.MustCompile(`All \d+ mutants`).ReplaceAllString(text, fmt.Sprintf("All %d mutants", len(mutants)))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	require.True(t, strings.Contains(text, page("../..", mutants)), "the list of docs/develop/mutants.md is old: go test ./chaos/mutants -run Docs -update")
	require.True(t, strings.Contains(text, fmt.Sprintf("All %d mutants", len(mutants))), "docs/develop/mutants.md tells another number of mutants")
}

func TestChange_takesExactlyOnePlace(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two"), 0o600))
	for name, tc := range map[string]struct {
		m    mutant
		want string
		err  string
	}{
		"once":       {mutant{File: "a.go", Old: "one", New: "1"}, "1 two two", ""},
		"gone":       {mutant{File: "a.go", Old: "three", New: "3"}, "", "0 times"},
		"twice":      {mutant{File: "a.go", Old: "two", New: "2"}, "", "2 times"},
		"no change":  {mutant{File: "a.go", Old: "one", New: "one"}, "", "changes nothing"},
		"no text":    {mutant{File: "a.go", New: "1"}, "", "changes nothing"},
		"other file": {mutant{File: "b.go", Old: "one", New: "1"}, "", "no such file"},
	} {
		text, err := tc.m.change(root)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, string(text), name)
	}
}

func TestJudge(t *testing.T) {
	exit := errors.New("exit status 1")
	for name, tc := range map[string]struct {
		output string
		err    error
		want   outcome
		why    string
	}{
		"all passed":       {"--- PASS: TestA (0.00s)\nPASS\n", nil, survived, ""},
		"one failed":       {"--- FAIL: TestA (0.00s)\nFAIL\n", exit, caught, "TestA"},
		"a part failed":    {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\n", exit, caught, "TestA/b"},
		"panic":            {"panic: fsm: no job moves\n\ngoroutine 1 [running]:\n", exit, caught, "panic"},
		"too slow":         {"panic: test timed out after 3m0s\n\trunning tests:\n", exit, late, "the tests did not end"},
		"killed":           {"", errors.New("signal: killed"), late, "the tests ended without a result: signal: killed"},
		"it says no tests": {"testing: warning: no tests to run\nPASS\n", nil, survived, ""},
	} {
		r := judge(t.Context(), tc.output, tc.err)
		require.Equal(t, tc.want, r.outcome, name)
		require.Equal(t, tc.why, r.why, name)
	}
}

func TestChoose(t *testing.T) {
	from := []mutant{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	all, err := choose(from, "")
	require.NoError(t, err)
	require.Len(t, all, 3)
	some, err := choose(from, "c,a")
	require.NoError(t, err)
	require.Equal(t, []mutant{{Name: "c"}, {Name: "a"}}, some)
	_, err = choose(from, "a,d")
	require.ErrorContains(t, err, `"d"`)
}

// The test uses a module of a few lines, in which each outcome occurs.
func TestBench_tellsTheOutcomesApart(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/sum\n\ngo 1.26\n",
		"sum.go": "package sum\n\nfunc Sum(a, b int) int { return a + b }\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\n" +
			"func TestSum(t *testing.T) {\n\tif Sum(2, 3) != 5 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n\n" +
			"func TestZero(t *testing.T) {\n\tif Sum(0, 0) != 0 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n\n" +
			"func TestBad(t *testing.T) { t.Fatal(\"as it is\") }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	of := func(name, old, changed, test string) mutant {
		return mutant{Name: name, File: "sum.go", Old: old, New: changed, Package: ".", Tests: []string{test}}
	}
	want := map[string]outcome{}
	var list []mutant
	for m, o := range map[*mutant]outcome{
		new(of("noticed", "a + b", "a - b", "TestSum")):      caught,
		new(of("not-noticed", "a + b", "a - b", "TestZero")): survived,
		new(of("stale", "a * b", "a - b", "TestSum")):        stale,
		new(of("no-code", "a + b", "a +", "TestSum")):        broken,
		new(of("no-test", "a + b", "a - b", "TestGone")):     unsound,
		new(of("fails-anyhow", "a + b", "a - b", "TestBad")): unsound,
		new(of("stops", "a + b", "a / (b - b)", "TestSum")):  caught,
	} {
		list, want[m.Name] = append(list, *m), o
	}
	b := &bench{root: root, scratch: t.TempDir(), limit: time.Minute}
	c := &control{pkg: ".", tests: []string{"TestSum", "TestZero", "TestBad", "TestGone"}}
	for _, m := range list {
		r := b.try(t.Context(), &m, c)
		require.Equal(t, want[m.Name], r.outcome, "%s: %s\n%s", m.Name, r.why, r.output)
	}
	text, err := os.ReadFile(filepath.Join(root, "sum.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), "a + b", "the tree is as it was")
}
