package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// notPlain lists words and phrases that are hard to understand, or that are second names of a thing, each with what to
// write instead. The words are regular expressions without regard to case. A space also matches a line break.
var notPlain = []struct{ words, instead string }{
	// One term for each thing.
	{`reigns?`, "term"},
	{`verdicts?`, "decision, result"},
	{`condemn(s|ed)?`, "declare lost"},
	{`set aside`, "quarantined"},
	{`gives? way|gave way|giving way`, "is preempted"},
	{`on (its|their) way`, "in flight"},
	{`holds? (a|the) place`, "reservation"},
	{`fell ill|is ill`, "unhealthy"},

	// Riddles.
	{`who may take over`, "a replacement node"},
	{`who waits for what`, "the waiters whose view changed"},
	{`(by|of|for|to|from|with|on) who (?:is|was|are|has|had|may|must|can|could|holds|wants|waits|runs|needs|asks|changes|calls|knows|does)`, "name the subject: the caller, the reader, the node"},
	{`whoever`, "anyone who, the node that"},
	{`who may not`, "denied callers"},
	{`what is there`, "name the thing"},
	{`is none of its own`, "name the thing"},
	{`knows? nothing of`, "has no record of"},
	{`(is|are|was) called by [0-9]`, "has N to M characters"},

	// Poetry.
	{`afraid`, "invalid references are dropped"},
	{`goodbye`, "leave failed"},
	{`brooms?`, "a cleanup job"},
	{`wash(es|ed)? away`, "push out"},
	{`do to machines`, "name the fault"},
	{`dealt like cards`, "in random order"},
	{`checkers bite|does it bite`, "can the checks fail"},
	{`lets? itself`, "can be"},
	{`anew`, "again"},
	{`dearer`, "costs more"},
	{`on end`, "in a row"},
	{`in silence`, "without a message"},
	{`without a word`, "without a message"},
	{`rules of the house`, "rules"},
	{`at night`, "on call"},

	// Readers are not always men.
	{`he|his|him|himself`, "they, their, them"},

	// Riddles of texts that users see.
	{`did not spread`, "gossip leave failed"},
	{`by whoever may`, "any user who may"},
	{`and is told of`, "and is reported"},
	{`knows why`, "name the reason"},
	{`not known any more`, "no longer known"},
	{`speaks to nobody`, "refuses all callers"},
}

// plain returns the words of notPlain that a text has.
func plain(text string) []string {
	var found []string
	for i, w := range notPlain {
		for _, m := range patterns()[i].FindAllString(text, -1) {
			found = append(found, strings.Join(strings.Fields(m), " ")+" (better: "+w.instead+")")
		}
	}
	return found
}

var patterns = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, w := range notPlain {
		all = append(all, regexp.MustCompile(`(?i)\b(`+strings.ReplaceAll(w.words, " ", `\s+`)+`)\b`))
	}
	return all
})

var span = regexp.MustCompile("`[^`]*`")

// TestPlain_pages leaves out code, which is quoted from the program: words there are changed in the program first.
func TestPlain_pages(t *testing.T) {
	var wrong []string
	for _, path := range files(t, ".md") {
		if path == "../docs/develop/mutants.md" {
			continue // printed from texts in chaos/mutants
		}
		prose := span.ReplaceAllString(codes.ReplaceAllString(read(t, path), ""), "`code`")
		for _, found := range plain(prose) {
			wrong = append(wrong, path+": "+found)
		}
	}
	require.Empty(t, wrong, "this can be said plainly")
	require.Len(t, plain("The Reign of a leader, who may\ntake over"), 2)
	require.Empty(t, plain("The foreign term of a leader."))
}

// frozen lists files whose texts can never change, because hashes in the logs of older versions depend on them.
var frozen = []string{"../fsm/reason/table.go"}

func TestPlain_code(t *testing.T) {
	var wrong []string
	for _, path := range files(t, ".go") {
		if path == "../docs/plain_test.go" || path == "../docs/grammar_test.go" || strings.HasSuffix(path, ".pb.go") || slices.Contains(frozen, path) {
			continue
		}
		for _, text := range texts(t, path) {
			for _, found := range plain(text) {
				wrong = append(wrong, path+": "+found)
			}
		}
	}
	require.Empty(t, strings.Join(wrong, "\n"), "this can be said plainly")
	for _, path := range frozen {
		require.FileExists(t, path)
	}
}

// texts returns the comments, the strings and the names of tests of a Go file.
func texts(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []string
	for _, c := range file.Comments {
		found = append(found, c.Text())
	}
	capital := regexp.MustCompile(`[A-Z_]`)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				found = append(found, n.Value)
			}
		case *ast.FuncDecl:
			found = append(found, capital.ReplaceAllString(n.Name.Name, " $0"))
		}
		return true
	})
	return found
}
