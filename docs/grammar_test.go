package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// grammar are constructions that a reader has to read twice. A list of words does not find them, because each word of them is a
// good one. A pattern is matched against one sentence, in which white space is one space. found says more than a regular
// expression can, and is nil where the expression is enough.
var grammar = []struct {
	name    string
	pattern string
	found   func(sentence string) bool
	inCode  bool // not in pages, whose titles may be short
	instead string
	bad     []string
	good    []string
}{
	{
		name: "who without a person", found: freeWho,
		instead: "name the thing (the node that, the replica that) or the person (the caller who)",
		bad: []string{
			"Who has a term refuses it.",
			"It is a message of term 0: who has a term refuses it.",
			"revive starts who has a seat unless a fault keeps it down.",
			"survey finds who has to leave a node for a task.",
			"spot is a place for one task, and who has to leave for it.",
			"orderPreemptor decides who is stopped for whom.",
			"A hang holds up each who waits for it.",
			"The token of whoever asks is checked.",
		},
		good: []string{
			"A user who may view the job sees it.",
			"It names the user for whom the token acts.",
			"Those who begin later read by themselves.",
			"The caller, who waits for the answer, releases it.",
			"GET /audit lists who did what, newest first.",
			"ListPeers says who is in the cluster, who leads, and who answers.",
			"It does not know who leads.",
			"Who may change them?",
			"Who decides",
			"Names such as who-am-I are no words.",
		},
	},
	{
		name: "what came of it", pattern: `\b(what|nothing|something) (else )?(has |have |had |may |will |would |is to )?(came|comes|come|became|becomes|become) of\b`,
		instead: "the result, the outcome, what happened to",
		bad:     []string{"Outcome is what came of a call.", "Nothing comes of it.", "A run is one time that it was due, and what became of it."},
		good:    []string{"The call came from an agent.", "The certificate comes of age."},
	},
	{
		name: "came to, for a result", pattern: `\b(came|comes|come) to( (nothing|its end|their ends?|an end|rest|be)\b|( the same)?([.,;:)]|$))`,
		instead: "ended, resulted in, failed, began to exist",
		bad: []string{
			"Streak is what its last attempts came to.", "A proposal that came to nothing is tried again.", "The two come to the same.",
			"The state that the log comes to; nil for none.", "It waits until everything has come to rest and is quiet.", "They are numbered in the order in which they came to be.",
		},
		good: []string{"A message from an agent comes to the leader.", "The agent came to the same node again."},
	},
	{
		name: "told of", pattern: `\b(is|are|was|were|be|been|being|gets?|got|never|not|last|first) (also |only |soon |already )?told of\b`,
		instead: "receives, is notified of, learns about",
		bad:     []string{"It is told of each node that changed.", "Watchers are not told of it.", "A node is only told of its own tasks."},
		good:    []string{"The operator was told the reason.", "The caller is told what to do.", "A story is told often."},
	},
	{
		name: "X is what", pattern: `^(\S+ ){1,8}(is|are|was|were) (also |only |just |exactly )?what\b`,
		instead: "say the noun: the result of, the tasks that, the settings of",
		bad: []string{
			"Config is what a Keeper uses.", "Streak is what its last attempts came to.", "The grace period is what is left of the time limit.",
			"That is what shims are for.",
		},
		good: []string{"The question is which node.", "What is this?", "Nobody knows what it is.", "It is known what they asked for."},
	},
	{
		name: "a sentence that begins with What", inCode: true, pattern: `^What(ever)? .*[^?]$`,
		instead: "begin with the noun: an object that, the GPUs that",
		bad:     []string{"What a killed writer left is no object.", "Whatever was printed before is lost."},
		good:    []string{"What does it cost?", "Nothing shows what it costs.", "WhatIf answers a question."},
	},
	{
		name: "a comparison without a noun", pattern: `\b(than|as (much|many|far|long) as) (was|were|had been)\b`,
		instead: "name what is compared: more lines than it has, as many GPUs as it asked for",
		bad:     []string{"The task wrote more than was read.", "It knows less than was acknowledged.", "It takes as much as was asked for."},
		good:    []string{"The task wrote more lines than it may.", "It is larger than the limit.", "It was earlier than expected."},
	},
	{
		name: "its own doing", pattern: `\b(own|nobody's|somebody's|whose) doing\b`,
		instead: "say who acted: the cluster acts by itself",
		bad:     []string{"A change without a user is the cluster's own doing."},
		good:    []string{"The agent keeps doing so.", "Their own tasks are stopped."},
	},
	{
		name: "there never is", pattern: `\b(there (never|always|still|only) (is|are|was|were)\b|(what|which|than|as) there (never |always |still )?(is|are|was|were)( by now)?([.,;:)]|$))`,
		instead: "no leader has term 0; the existing rows",
		bad:     []string{"It is a leader of term 0, which there never is.", "Release lets them have what there is.", "There always was one."},
		good:    []string{"There is never more than one leader.", "It takes as many GPUs as there are on the node.", "There is one for each node."},
	},
	{
		name: "sees to it", pattern: `\b(sees?|saw|seen) to (it\b|that\b)`,
		instead: "makes sure that; or say the action",
		bad:     []string{"The key sees to it that there is one job.", "The caller sees to that."},
		good:    []string{"It sees the nodes to drain."},
	},
}

// people lists the words that "who" may follow.
var people = words(`those anyone anybody everyone everybody someone somebody nobody people person persons user users caller callers operator operators reader
	readers submitter submitters attacker attackers owner owners author authors tenant tenants administrator administrators engineer engineers developer
	developers client clients customer customers others all many`)

// asking lists the verbs that an indirect question may follow.
var asking = words(`say says said know knows knew known tell tells told ask asks asked show shows list lists see sees check checks checked decide decides
	audit: page: table:`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// freeWho reports a "who" that follows neither a person nor a verb of asking. A second one after such a verb continues the question:
// "says who leads, and who answers".
func freeWho(sentence string) bool {
	if strings.HasSuffix(sentence, "?") {
		return false
	}
	all := strings.Fields(sentence)
	if len(all) <= 4 && !strings.ContainsAny(sentence[len(sentence)-1:], ".:;") {
		return false // a heading, or a label of a picture
	}
	if strings.Contains(sentence, "who did what") {
		return false
	}
	question := false
	for i, word := range all {
		word = strings.ToLower(strings.TrimFunc(word, unicode.IsPunct))
		question = question || asking[word]
		switch {
		case word == "whom" && i > 1 && people[strings.ToLower(strings.TrimFunc(all[i-2], unicode.IsPunct))]:
			continue // the user for whom
		case word == "whoever" || word == "whom" || word == "whomever":
			return true
		case word != "who":
			continue
		case i > 0 && people[strings.ToLower(strings.TrimFunc(all[i-1], unicode.IsPunct))]:
			continue
		case i == 0 || !question:
			return true
		}
		before := strings.ToLower(strings.Trim(all[i-1], `*"`))
		if w := strings.TrimRight(before, ",;:"); !asking[w] && w == before && w != "and" && w != "or" {
			return true // another verb came between
		}
	}
	return false
}

// awkward returns the constructions that a sentence has, each with what to write instead.
func awkward(sentence string, code bool) []string {
	var found []string
	for i, g := range grammar {
		if g.inCode && !code {
			continue
		}
		if g.found != nil && g.found(sentence) || g.found == nil && grammarPatterns[i].MatchString(sentence) {
			found = append(found, g.name+" (better: "+g.instead+")")
		}
	}
	return found
}

var grammarPatterns = func() (all []*regexp.Regexp) {
	for _, g := range grammar {
		flag := "(?i)"
		if strings.HasPrefix(g.pattern, "^What") {
			flag = ""
		}
		all = append(all, regexp.MustCompile(flag+g.pattern))
	}
	return all
}()

func TestGrammar_patterns(t *testing.T) {
	for _, g := range grammar {
		require.NotEmpty(t, g.bad, g.name)
		require.NotEmpty(t, g.good, g.name)
		for _, s := range g.bad {
			require.True(t, slices.ContainsFunc(awkward(s, true), func(f string) bool { return strings.HasPrefix(f, g.name) }), "%s: %s", g.name, s)
		}
		for _, s := range g.good {
			require.Empty(t, awkward(s, true), "%s: %s", g.name, s)
		}
	}
}

// line is a sentence, with the number of the line of the file at which it begins.
type line struct {
	number   int
	sentence string
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?]["')*\x60]*(\s+)|(\n)\s*(?:[-*|]|[0-9]+\.) |(\n)\s*\n|\s(\|)\s|([;:])\s`)
	blanks      = regexp.MustCompile(`\s+`)
)

// sentences splits a text at the ends of sentences, clauses after a colon or a semicolon, items of a list and cells of a table. A
// clause after a colon or a semicolon is a sentence of its own, so that what holds for the beginning of a sentence holds there;
// an indirect question goes on behind a colon ("shows the members: who leads"), so such a clause keeps what is before it.
func sentences(text string, first int) (all []line) {
	begin, clause := 0, 0
	add := func(from, to int) {
		s := strings.TrimSpace(blanks.ReplaceAllString(text[from:to], " "))
		s = strings.TrimRight(strings.TrimLeft(s, "-*|#> "), " -|")
		if utf8.RuneCountInString(s) > 3 {
			skipped := len(text[from:to]) - len(strings.TrimLeftFunc(text[from:to], unicode.IsSpace))
			all = append(all, line{first + strings.Count(text[:from+skipped], "\n"), s})
		}
	}
	for _, m := range sentenceEnd.FindAllStringSubmatchIndex(text, -1) {
		if before := text[:m[0]]; strings.HasSuffix(before, "e.g") || strings.HasSuffix(before, "i.e") || strings.HasSuffix(before, "cf") {
			continue
		}
		if m[10] >= 0 { // a colon or a semicolon
			add(clause, m[11])
			clause = m[1]
			if rest := strings.TrimSpace(text[clause:]); strings.HasPrefix(rest, "who") {
				clause = begin
				all = all[:len(all)-1]
			}
			continue
		}
		add(clause, m[1])
		begin, clause = m[1], m[1]
	}
	add(clause, len(text))
	return all
}

func TestGrammar_sentences(t *testing.T) {
	require.Equal(t, []line{
		{7, "A node is lost."},
		{8, "It has no session:"},
		{8, "its tasks run on, e.g. here;"},
		{9, "a leader says so."},
		{11, "an item of two lines"},
		{13, "another"},
	}, sentences("A node\nis lost.  It has no session: its tasks run on, e.g. here;\na leader says so.\n\n- an item\n  of two lines\n- another\n", 6+1))
	require.Equal(t, []line{{1, "It shows the members: who leads, who answers."}}, sentences("It shows the members: who leads, who answers.", 1))
}

func TestGrammar_code(t *testing.T) {
	var wrong []string
	for _, path := range files(t, ".go") {
		name := strings.TrimPrefix(path, "../")
		if name == "docs/grammar_test.go" || name == "docs/plain_test.go" || strings.HasSuffix(name, ".pb.go") {
			continue
		}
		for _, l := range linesOfCode(t, path) {
			for _, found := range awkward(l.sentence, true) {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s\n\t%s", name, l.number, found, l.sentence))
			}
		}
	}
	require.Empty(t, strings.Join(wrong, "\n"), "this can be said plainly")
}

// linesOfCode returns the sentences of a Go file's comments, and of its texts that users may see.
func linesOfCode(t *testing.T, path string) (all []line) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, c := range file.Comments {
		first := c.Pos()
		if strings.HasPrefix(c.List[0].Text, "//go:") {
			first = c.List[min(1, len(c.List)-1)].Pos()
		}
		all = append(all, sentences(c.Text(), set.Position(first).Line)...)
	}
	if strings.HasSuffix(path, "_test.go") {
		return all
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, " ") {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		require.NoError(t, err)
		all = append(all, sentences(text, set.Position(lit.Pos()).Line)...)
		return true
	})
	return all
}

func TestGrammar_pages(t *testing.T) {
	var wrong []string
	for _, path := range files(t, ".md") {
		for _, l := range linesOfPage(read(t, path)) {
			for _, found := range awkward(l.sentence, false) {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s\n\t%s", strings.TrimPrefix(path, "../"), l.number, found, l.sentence))
			}
		}
	}
	require.Empty(t, strings.Join(wrong, "\n"), "this can be said plainly")
}

// linesOfPage returns the sentences of a page. It leaves out blocks of code, and replaces a span of code by one word.
func linesOfPage(text string) []line {
	text = codes.ReplaceAllStringFunc(text, func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
	text = span.ReplaceAllStringFunc(text, func(code string) string { return "code" + strings.Repeat("\n", strings.Count(code, "\n")) })
	return sentences(text, 1)
}

func TestGrammar_linesOfPage(t *testing.T) {
	require.Equal(t, []line{{1, "One."}, {6, "Two code."}}, linesOfPage("One.\n\n```sh\nwho. what\n```\nTwo `a. b`.\n"))
}
