package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// ignorer decides what is left out, by files with patterns in the syntax of .gitignore, in any folder. The patterns of a file hold
// for its folder and below; the last one that matches decides; what is in a folder that is left out is left out.
type ignorer struct {
	dir   string
	names []string // of the files with patterns; later ones are read later
	// rules and decided are by folder.
	rules   map[string][]rule
	decided map[string]bool
	fault   error
}

// rule is one pattern.
type rule struct {
	match   *regexp.Regexp // of the path relative to the folder of the file
	back    bool           // it begins with "!"
	dirOnly bool
}

func newIgnorer(dir string, names ...string) *ignorer {
	return &ignorer{dir: dir, names: names, rules: map[string][]rule{}, decided: map[string]bool{".": false}}
}

// leavesOut reports whether a path is left out.
func (g *ignorer) leavesOut(name string, isDir bool) bool {
	if isDir {
		if out, ok := g.decided[name]; ok {
			return out
		}
	}
	out := g.leavesOut1(name, isDir)
	if isDir {
		g.decided[name] = out
	}
	return out
}

func (g *ignorer) leavesOut1(name string, isDir bool) bool {
	if parent := path.Dir(name); parent != "." && g.leavesOut(parent, true) {
		return true
	}
	for folder := path.Dir(name); ; folder = path.Dir(folder) {
		rel := name
		if folder != "." {
			rel = name[len(folder)+1:]
		}
		rules := g.of(folder)
		for i := len(rules) - 1; i >= 0; i-- {
			if r := rules[i]; (isDir || !r.dirOnly) && r.match.MatchString(rel) {
				return !r.back
			}
		}
		if folder == "." {
			return false
		}
	}
}

// of returns the rules of the files in a folder.
func (g *ignorer) of(folder string) []rule {
	if rules, ok := g.rules[folder]; ok {
		return rules
	}
	var rules []rule
	for _, name := range g.names {
		text, err := os.ReadFile(filepath.Join(g.dir, filepath.FromSlash(folder), name))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				g.fault = errors.Join(g.fault, fmt.Errorf("read the patterns of what is left out: %w", err))
			}
			continue
		}
		for line := range strings.Lines(string(text)) {
			if r, ok := parseRule(strings.TrimRight(line, "\r\n")); ok {
				rules = append(rules, r)
			}
		}
	}
	g.rules[folder] = rules
	return rules
}

// parseRule reads a line; false: it has no pattern.
func parseRule(line string) (r rule, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.back, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirOnly, line = true, line[:len(line)-1]
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	prefix := "^"
	if !anchored {
		prefix = "^(?:.*/)?"
	}
	match, err := regexp.Compile("(?s)" + prefix + expression(line) + "$")
	r.match = match
	return r, err == nil
}

// expression translates a pattern.
func expression(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		start := i == 0 || pattern[i-1] == '/'
		switch c := pattern[i]; {
		case start && strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case start && rest == "**":
			b.WriteString(".+")
			i++
		case c == '*':
			b.WriteString("[^/]*")
			for i+1 < len(pattern) && pattern[i+1] == '*' {
				i++
			}
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			class, n := classOf(rest)
			b.WriteString(class)
			i += n - 1
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return b.String()
}

// classOf translates a class such as [a-z] or [!0-9] at the beginning of a text, and returns its length.
func classOf(text string) (string, int) {
	end := 1
	if end < len(text) && (text[end] == '!' || text[end] == '^') {
		end++
	}
	if end < len(text) && text[end] == ']' {
		end++
	}
	for end < len(text) && text[end] != ']' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(text) {
		return `[^\x00-\x{10FFFF}]`, len(text) // it has no end: the pattern matches nothing
	}
	inner := text[1:end]
	not := ""
	if inner[0] == '!' || inner[0] == '^' {
		not, inner = "^/", inner[1:]
	}
	inner = strings.NewReplacer("[", `\[`, "]", `\]`, "^", `\^`).Replace(inner)
	return "[" + not + inner + "]", end + 1
}
