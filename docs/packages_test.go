package docs

import (
	"flag"
	"go/doc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write from the code what it is compared with: the package map, the tests that pages name, the weights")

// A larger package should be split, because it does more than one thing. The map may have a reason why a package is
// larger.
const maxPackageLines = 2500

// mapped is the entry of one package in the package map of docs/architecture.md.
type mapped struct {
	sentence string
	imports  []string
	large    string // the reason why it may be larger than maxPackageLines
}

const (
	mapBegins = "```packages\n"
	mapEnds   = "```\n"
)

// packageMap reads the package map. before and after are the text of the page around it.
func packageMap(t *testing.T) (before string, packages map[string]mapped, after string) {
	t.Helper()
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), mapBegins)
	require.True(t, found, "the package map is gone")
	block, after, found := strings.Cut(rest, mapEnds)
	require.True(t, found)
	packages = map[string]mapped{}
	for _, entry := range unwrap(block) {
		name, rest, _ := strings.Cut(entry[0], ": ")
		p := mapped{sentence: rest}
		for _, line := range entry[1:] {
			if imports, ok := strings.CutPrefix(line, "imports: "); ok {
				p.imports = strings.Fields(imports)
			} else if reason, ok := strings.CutPrefix(line, "large: "); ok {
				p.large = reason
			} else {
				require.Failf(t, "the package map has a line that nobody understands", "%q", line)
			}
		}
		packages[name] = p
	}
	return before, packages, after
}

// unwrap splits the map into packages and their lines, with wrapped lines joined again.
func unwrap(block string) (entries [][]string) {
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "    "):
			last := entries[len(entries)-1]
			last[len(last)-1] += " " + strings.TrimSpace(line)
		case strings.HasPrefix(line, "  "):
			entries[len(entries)-1] = append(entries[len(entries)-1], strings.TrimSpace(line))
		default:
			entries = append(entries, []string{line})
		}
	}
	return entries
}

// wrap breaks a text into lines of at most 120 characters.
func wrap(text, indent string) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			column = len(indent) + len(word)
			out.WriteString(indent + word)
		case column+1+len(word) > 120:
			column = 4 + len(word)
			out.WriteString("\n    " + word)
		default:
			column += 1 + len(word)
			out.WriteString(" " + word)
		}
	}
	return out.String() + "\n"
}

// sentence returns the first sentence of a package comment, without "Package x".
func sentence(p goPackage) string {
	words := strings.SplitN(new(doc.Package).Synopsis(p.Doc), " ", 3)
	if len(words) == 3 && (words[0] == "Package" || words[0] == "Command") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// inside returns the imports of a package that are packages of this module.
func inside(p goPackage) []string {
	var own []string
	for _, imported := range p.Imports {
		if rel, ok := strings.CutPrefix(imported, module+"/"); ok {
			own = append(own, rel)
		}
	}
	slices.Sort(own)
	return own
}

// actual returns the map that the code should have, with the reasons in the map stands.
func actual(t *testing.T, stands map[string]mapped) map[string]mapped {
	packages := map[string]mapped{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		if rel == "docs" || len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue
		}
		packages[rel] = mapped{sentence: sentence(p), imports: inside(p), large: stands[rel].large}
	}
	return packages
}

// TestPackages_theMapIsTheCode compares the package map with the code: the packages, the first sentence of each package
// comment, and the imports. So a new import between two packages is visible in the diff of a change.
func TestPackages_theMapIsTheCode(t *testing.T) {
	before, stands, after := packageMap(t)
	is := actual(t, stands)
	if *update {
		rewrite(t, before, is, after)
		return
	}
	const remedy = "run: go test ./docs -run Packages -update, and look at what changed"
	for name, p := range is {
		require.Containsf(t, stands, name, "a package that the map does not know; %s", remedy)
		require.Equalf(t, p, stands[name], "%s: the map says something else than the code; %s", name, remedy)
	}
	for name := range stands {
		require.Containsf(t, is, name, "the map knows a package that is gone; %s", remedy)
	}
}

func rewrite(t *testing.T, before string, packages map[string]mapped, after string) {
	t.Helper()
	var order []string
	for _, m := range rooms(t) {
		order = append(order, m.name)
	}
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if by := slices.Index(order, room(a)) - slices.Index(order, room(b)); by != 0 {
			return by
		}
		return strings.Compare(a, b)
	})
	var block strings.Builder
	for _, name := range names {
		p := packages[name]
		block.WriteString(wrap(name+": "+p.sentence, ""))
		if len(p.imports) > 0 {
			block.WriteString(wrap("imports: "+strings.Join(p.imports, " "), "  "))
		}
		if p.large != "" {
			block.WriteString(wrap("large: "+p.large, "  "))
		}
	}
	require.NoError(t, os.WriteFile("architecture.md", []byte(before+mapBegins+block.String()+mapEnds+after), 0o644))
}

// TestPackages_fitAHead checks that each package over maxPackageLines lines has a reason in the map, and that no other
// package has one. Tests and generated code do not count.
func TestPackages_fitAHead(t *testing.T) {
	_, stands, _ := packageMap(t)
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		lines := 0
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles) {
			if strings.HasSuffix(file, ".pb.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			lines += strings.Count(string(text), "\n")
		}
		if lines > maxPackageLines {
			require.NotEmptyf(t, stands[rel].large, "%s has %d lines: split it by idea, or give the reason in a line \"large:\" of the package map in docs/architecture.md", rel, lines)
		} else {
			require.Emptyf(t, stands[rel].large, "%s has %d lines: it needs no reason any more", rel, lines)
		}
	}
}

// TestPackages_noRoomsInACircle checks that folders do not import each other in a circle, at any depth. The compiler
// checks this only for packages.
func TestPackages_noRoomsInACircle(t *testing.T) {
	arrows := map[string]map[string]bool{} // folder: the folders beside it that it imports
	for _, p := range listPackages(t) {
		from := strings.Split(strings.TrimPrefix(p.ImportPath, module+"/"), "/")
		for _, imported := range inside(p) {
			to := strings.Split(imported, "/")
			for depth := range min(len(from), len(to)) {
				if from[depth] == to[depth] {
					continue
				}
				a, b := strings.Join(from[:depth+1], "/"), strings.Join(to[:depth+1], "/")
				if arrows[a] == nil {
					arrows[a] = map[string]bool{}
				}
				arrows[a][b] = true
				break
			}
		}
	}
	const walking, done = 1, 2
	state := map[string]int{}
	var walk func(folder string, path []string)
	walk = func(folder string, path []string) {
		path = append(path, folder)
		require.NotEqualf(t, walking, state[folder], "folders import each other in a circle: %v", path)
		if state[folder] == done {
			return
		}
		state[folder] = walking
		for next := range arrows[folder] {
			walk(next, path)
		}
		state[folder] = done
	}
	for folder := range arrows {
		walk(folder, nil)
	}
}
