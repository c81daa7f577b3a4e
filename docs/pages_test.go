package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	_ "github.com/mindcoordinator/mind/fsm" // its domains name their actions
	"github.com/mindcoordinator/mind/fsm/access"
)

// files returns the paths of the files of the repository with one of the given endings, relative to this folder. It
// leaves out hidden folders and build outputs.
func files(t *testing.T, endings ...string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || path == "../bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() && slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(path, end) }) {
			all = append(all, path)
		}
		return nil
	}))
	require.NotEmpty(t, all)
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Longer lines are hard to read.
const maxColumns = 120

// A block of code is copied and pasted, so it may have longer lines.
const maxCodeColumns = 160

var fence = regexp.MustCompile("^ *```")

// tooLong returns the lines of a page that are too long. A line with a word that is too long itself, such as a URL, is
// not counted.
func tooLong(page string) []string {
	var found []string
	code := false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if fence.MatchString(line) {
			code = !code
		}
		limit := maxColumns
		if code || strings.HasPrefix(line, "    ") {
			limit = maxCodeColumns
		}
		unbreakable := slices.ContainsFunc(strings.Fields(line), func(word string) bool { return utf8.RuneCountInString(word) > maxColumns-20 })
		if utf8.RuneCountInString(line) > limit && !unbreakable {
			found = append(found, line)
		}
	}
	return found
}

func TestPages_linesFit(t *testing.T) {
	var wrong []string
	for _, path := range files(t, ".md") {
		for _, line := range tooLong(read(t, path)) {
			if path == "../docs/architecture.md" && strings.HasPrefix(line, "| `") {
				continue // one package in each line, so that changes merge
			}
			wrong = append(wrong, path+": "+line)
		}
	}
	require.Emptyf(t, wrong, "lines of more than %d columns", maxColumns)
	long := strings.Repeat("word ", 30)
	require.Len(t, tooLong("short\n"+long+"\n```\n"+long+"\n```\n    "+long+"\n| "+long+"|\n"), 2)
	require.Empty(t, tooLong("https://example.com/"+strings.Repeat("a", 200)+"\n"))
	require.Len(t, tooLong("```\n"+long+long+"\n```\n"), 1)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	codes   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// anchors returns the anchors of a page, as GitHub makes them from its headings.
func anchors(page string) []string {
	var all []string
	for _, h := range heading.FindAllStringSubmatch(codes.ReplaceAllString(page, ""), -1) {
		text := link.ReplaceAllString(strings.ToLower(h[1]), "]")
		all = append(all, regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(text, ""))
		all[len(all)-1] = strings.ReplaceAll(all[len(all)-1], " ", "-")
	}
	return all
}

func TestPages_linksLeadSomewhere(t *testing.T) {
	seen, wrong := 0, []string{}
	for _, path := range files(t, ".md") {
		page := codes.ReplaceAllString(read(t, path), "")
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			seen++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			_, err := os.Stat(target)
			if err != nil || anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				wrong = append(wrong, path+": "+m[1])
			}
		}
	}
	require.Empty(t, wrong, "links that lead nowhere")
	require.Greater(t, seen, 100)
}

// Each page must be in the index, which lists pages by their readers.
func TestPages_areInTheIndex(t *testing.T) {
	index := read(t, "README.md")
	for _, path := range files(t, ".md") {
		rel, err := filepath.Rel("../docs", path)
		require.NoError(t, err)
		if rel == "README.md" || strings.HasPrefix(rel, "..") || strings.HasPrefix(rel, "decisions/") {
			continue
		}
		require.Containsf(t, index, "("+rel+")", "docs/README.md does not list docs/%s", rel)
	}
}

// Each page that code, help or a build file names must exist.
func TestPages_namedElsewhereExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
	seen := 0
	for _, path := range files(t, ".go", ".proto", "Makefile", ".md", ".yaml", ".yml", ".sh", ".mod") {
		for _, page := range named.FindAllString(read(t, path), -1) {
			seen++
			require.FileExistsf(t, filepath.Join("..", page), "%s names %s", path, page)
		}
	}
	require.Greater(t, seen, 20)
}

// namedTest matches a test in a page, which is written `folder TestName`. After a test was moved, go test ./docs -run
// Pages -update corrects the folder.
var namedTest = regexp.MustCompile("`([a-z0-9/_-]+) ((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)`")

// rewrap breaks the lines of list items that have a line that is too long. It does not break spans of code.
func rewrap(page string) string {
	word := regexp.MustCompile("(?:`[^`]*`|[^\\s`])+")
	item := regexp.MustCompile(`(?m)^- .*\n(?:  .*\n)*`)
	return item.ReplaceAllStringFunc(page, func(item string) string {
		if len(tooLong(item)) == 0 {
			return item
		}
		var b strings.Builder
		column := 0
		for _, w := range word.FindAllString(item, -1) {
			switch width := utf8.RuneCountInString(w); {
			case column == 0:
				column = width
			case column+1+width > maxColumns:
				b.WriteString("\n  ")
				column = 2 + width
			default:
				b.WriteString(" ")
				column += 1 + width
			}
			b.WriteString(w)
		}
		return b.String() + "\n"
	})
}

func TestPages_rewrap(t *testing.T) {
	const named = "`coordinator/session TestTable_aSessionEndsWithItsTerm`"
	long := "- **It fails**: " + strings.Repeat("it is so ", 10) + named + "\n  and more: " + named + ".\n"
	page := "# Head\n\n" + long + "\n- short\n  `a b`\n"
	require.NotEmpty(t, tooLong(page))
	wrapped := rewrap(page)
	require.Empty(t, tooLong(wrapped))
	require.Equal(t, strings.Fields(page), strings.Fields(wrapped))
	require.Equal(t, 2, strings.Count(wrapped, named))
	require.Contains(t, wrapped, "\n\n- short\n  `a b`\n")
}

func TestPages_nameTestsThatExist(t *testing.T) {
	where := map[string][]string{} // the folders of each test
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	for _, path := range files(t, "_test.go") {
		folder := strings.TrimPrefix(filepath.Dir(path), "../")
		for _, m := range function.FindAllStringSubmatch(read(t, path), -1) {
			where[m[1]] = append(where[m[1]], folder)
		}
	}
	seen := map[string]bool{}
	for _, path := range files(t, ".md") {
		page := read(t, path)
		right := namedTest.ReplaceAllStringFunc(page, func(name string) string {
			m := namedTest.FindStringSubmatch(name)
			seen[m[2]] = true
			switch folders := where[m[2]]; {
			case slices.Contains(folders, m[1]):
			case len(folders) == 1:
				return "`" + folders[0] + " " + m[2] + "`"
			default:
				require.Failf(t, "no such test", "%s names %s, and %s is in %q", path, name, m[2], folders)
			}
			return name
		})
		if right == page {
			continue
		}
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(rewrap(right)), 0o600))
			continue
		}
		for old := range namedTest.FindAllString(page, -1) {
			was, is := namedTest.FindAllString(page, -1)[old], namedTest.FindAllString(right, -1)[old]
			require.Equalf(t, is, was, "%s: the test is elsewhere; go test ./docs -run Pages -update corrects all pages", path)
		}
	}
	require.Greater(t, len(slices.Collect(maps.Keys(seen))), 50)
}

// The page must name every metric of the program.
func TestPages_nameEveryMetric(t *testing.T) {
	page := read(t, "operate/metrics.md")
	metric := regexp.MustCompile(`(?:Name: +|NewDesc\()"(mind_[a-z_]+)"`)
	seen := 0
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range metric.FindAllStringSubmatch(read(t, path), -1) {
			seen++
			require.Containsf(t, page, "`"+m[1], "docs/operate/metrics.md does not name a metric of %s", path)
		}
	}
	require.Greater(t, seen, 35)
}

// The page lists the actions of the audit log by kind: `node.drain`, `.enable`. It must name every action.
func TestPages_nameEveryAuditAction(t *testing.T) {
	page, err := os.ReadFile("use/rest.md")
	require.NoError(t, err)
	_, list, ok := strings.Cut(string(page), "There is one record for each action of a user")
	require.True(t, ok)
	list, _, _ = strings.Cut(list, "\n## ")
	named, kind := map[string]bool{}, ""
	for _, m := range regexp.MustCompile("`([a-z]*)\\.([a-z]+)`").FindAllStringSubmatch(list, -1) {
		if m[1] != "" {
			kind = m[1]
		}
		named[kind+"."+m[2]] = true
	}
	for _, action := range access.AuditActions() {
		require.True(t, named[action], "docs/use/rest.md does not name %s", action)
	}
}
