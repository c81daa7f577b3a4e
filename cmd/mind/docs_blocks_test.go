package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pasted is a block of a page that its reader pastes into a terminal, or saves as a file. docs/develop/testing.md
// describes how a page says which.
type pasted struct {
	line  int // of its first line, from 1
	text  string
	file  string   // the file that the reader saves it as
	needs []string // what it takes beyond Mind and a shell
	stays bool     // its last command runs until Ctrl-C, in a terminal of its own
}

// template is a word of an info string: its commands have placeholders.
const template = "template"

// pastedBlocks returns the shell blocks and the files of a page.
func pastedBlocks(page string) (all []pasted, err error) {
	var block *pasted
	inside := false
	for i, line := range strings.Split(page, "\n") {
		info, fenced := strings.CutPrefix(line, "```")
		switch {
		case fenced && !inside:
			inside = true
			if block, err = readInfo(info); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			if block != nil {
				block.line = i + 2
			}
		case fenced:
			if inside = false; block != nil {
				all = append(all, *block)
			}
		case inside && block != nil:
			block.text += line + "\n"
		}
	}
	return all, nil
}

// readInfo reads the words behind the fence of a block. It returns nil for a block that nobody pastes.
func readInfo(info string) (*pasted, error) {
	words := strings.Fields(info)
	if len(words) == 0 {
		return nil, nil
	}
	b := &pasted{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == template:
			return nil, nil
		case word == "stays":
			b.stays = true
		case key == "needs" && value != "":
			b.needs = strings.Split(value, ",")
		case key == "file" && value != "":
			b.file = value
		default:
			return nil, fmt.Errorf("%q says nothing about a block", word)
		}
	}
	if words[0] != "sh" && b.file == "" {
		return nil, nil
	}
	return b, nil
}

// statement is a command line of a block: what a shell runs at once.
type statement struct {
	line        int
	text        string
	code        int  // the exit code that it must have
	interrupted bool // the reader ends it with Ctrl-C
}

var (
	onlyComments = regexp.MustCompile(`^(\s*(#.*)?\n)*$`)
	saysRefused  = regexp.MustCompile(`(?m)\s# refused\b`)
	saysCode     = regexp.MustCompile(`(?m)\s# exit code (\d+)\b`)
	saysCtrlC    = regexp.MustCompile(`(?m)\s# Ctrl-C\b`)
)

// statements splits a block into command lines. bash says where one ends.
func (b pasted) statements() ([]statement, error) {
	var all []statement
	var open statement
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		if open.text == "" {
			open.line = b.line + i
		}
		open.text += line + "\n"
		if onlyComments.MatchString(open.text) {
			open.text = ""
			continue
		}
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(open.text)
		if complaint, err := check.CombinedOutput(); err != nil || len(complaint) > 0 || strings.HasSuffix(line, `\`) {
			continue
		}
		open.interrupted = saysCtrlC.MatchString(open.text)
		if saysRefused.MatchString(open.text) {
			open.code = 1
		} else if m := saysCode.FindStringSubmatch(open.text); m != nil {
			open.code, _ = strconv.Atoi(m[1]) // digits
		}
		all = append(all, open)
		open = statement{}
	}
	if open.text != "" {
		return nil, fmt.Errorf("line %d: no shell takes this: %s", open.line, open.text)
	}
	return all, nil
}

func TestPasted_readsBlocksAndStatements(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	blocks, err := pastedBlocks("# Page\n\n```\nmind job JOB\n```\n\n```sh template\nmind job JOB\n```\n\n```sh needs=curl,root\n# sees\n" +
		"id=$(mind submit \\\n  -- sh -c 'a\nb')   # one\n\nmind submit --gpus 99 -- true # refused: too many\ncat > x <<'END'\ny\nEND\nmind top # Ctrl-C ends it\nsh -c 'exit 7' # exit code 7\n```\n" +
		"```yaml file=job.yaml\nname: x\n```\n```yaml\nname: y\n```\n```sh stays\nmind dev\n```\n")
	require.NoError(t, err)
	require.Len(t, blocks, 3)
	require.Equal(t, pasted{line: 25, text: "name: x\n", file: "job.yaml"}, blocks[1])
	require.Equal(t, pasted{line: 31, text: "mind dev\n", stays: true}, blocks[2])
	require.Equal(t, []string{"curl", "root"}, blocks[0].needs)
	found, err := blocks[0].statements()
	require.NoError(t, err)
	require.Equal(t, []statement{
		{line: 13, text: "id=$(mind submit \\\n  -- sh -c 'a\nb')   # one\n"},
		{line: 17, text: "mind submit --gpus 99 -- true # refused: too many\n", code: 1},
		{line: 18, text: "cat > x <<'END'\ny\nEND\n"},
		{line: 21, text: "mind top # Ctrl-C ends it\n", interrupted: true},
		{line: 22, text: "sh -c 'exit 7' # exit code 7\n", code: 7},
	}, found)

	_, err = pastedBlocks("```sh need=curl\nx\n```\n")
	require.ErrorContains(t, err, `line 1: "need=curl"`)
	_, err = pasted{text: "echo 'a\n", line: 7}.statements()
	require.ErrorContains(t, err, "line 7")
	require.False(t, slices.Contains(notPrograms, "curl"))
}
