package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// example is a command in the documentation, after parsing by a shell.
type example struct {
	file  string
	words []string
}

func (e example) String() string { return e.file + ": " + strings.Join(e.words, " ") }

var shellBlock = regexp.MustCompile("(?ms)^```sh[^\n]*\n(.*?)^```")

// pages returns the files of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		all = append(all, files...)
	}
	return all
}

// examples returns all commands in the shell blocks of the documentation.
func examples(t *testing.T) []example {
	t.Helper()
	var all []example
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			s := &shell{text: block[1]}
			s.commands(0)
			for _, words := range s.found {
				all = append(all, example{filepath.Base(file), words})
			}
		}
	}
	require.Greater(t, len(all), 50)
	return all
}

// shell parses the subset of the shell's language that the documentation uses: words, quotes, comments, separators,
// redirections, and commands within $( ), which are also found, and become the word VALUE.
type shell struct {
	text  string
	at    int
	found [][]string
}

// before are words before a command that are not part of it.
var before = []string{"do", "then", "else", "!", "time", "sudo", "exec", "if", "while", "until"}

// commands parses commands up to a closing character, or to the end of the text.
func (s *shell) commands(until byte) {
	var words []string
	end := func() {
		for len(words) > 0 && (slices.Contains(before, words[0]) || regexp.MustCompile(`^[A-Za-z_]+=`).MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) > 0 {
			s.found = append(s.found, words)
		}
		words = nil
	}
	defer end()
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == until:
			s.at++
			return
		case c == '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		case c == '\\' && strings.HasPrefix(s.text[s.at:], "\\\n"):
			s.at += 2
		case c == ' ' || c == '\t':
			s.at++
		case c == '(' || c == ')' || c == '&' || c == '|' || c == ';' || c == '\n' || c == '`':
			s.at++
			end()
		case c == '<' || c == '>':
			for s.at++; s.at < len(s.text) && strings.ContainsRune("<>& ", rune(s.text[s.at])); s.at++ {
			}
			s.word()
		default:
			if w := s.word(); !strings.HasSuffix(w, "=VALUE") || len(words) > 0 {
				words = append(words, w)
			}
		}
	}
}

func (s *shell) word() string {
	var w strings.Builder
	quote := byte(0)
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == quote:
			quote = 0
		case quote == '\'':
			w.WriteByte(c)
		case strings.HasPrefix(s.text[s.at:], "$("):
			s.at += 2
			s.commands(')')
			w.WriteString("VALUE")
			continue
		case c == '\\' && s.at+1 < len(s.text):
			s.at++
			w.WriteByte(s.text[s.at])
		case quote == '"':
			w.WriteByte(c)
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte(" \t\n;|&()<>`", c) >= 0:
			return w.String()
		default:
			w.WriteByte(c)
		}
		s.at++
	}
	return w.String()
}

func TestShell_findsTheCommands(t *testing.T) {
	s := &shell{text: "id=$(mind submit --gpus 2 -- sh -c 'echo \"a; b\"')   # prints it\nmind logs -f $id | head -1 > out; X=1 mind job \"$id\" && do mind jobs \\\n  --limit 3\n"}
	s.commands(0)
	require.Equal(t, [][]string{
		{"mind", "submit", "--gpus", "2", "--", "sh", "-c", `echo "a; b"`},
		{"mind", "logs", "-f", "$id"},
		{"head", "-1"},
		{"mind", "job", "$id"},
		{"mind", "jobs", "--limit", "3"},
	}, s.found)
}
