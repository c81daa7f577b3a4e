package main

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command that was begun is finished: each text that only a person can supply is there.
func TestTree_hasNothingLeftToFillIn(t *testing.T) {
	found, err := left("..")
	require.NoError(t, err)
	for _, at := range found {
		t.Errorf("left to fill in: %s", at)
	}
}

func TestLeft_findsEachMark(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"a.go": "x\n// " + mark + " say why\n", "b.md": mark + " a row", "c.proto": "// " + mark + " c", "d.pb.go": mark, "scaffold/e.go": mark, ".f/g.go": mark, "h.txt": mark,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	found, err := left(root)
	require.NoError(t, err)
	require.Equal(t, []string{"a.go:2: say why", "b.md:1: a row", "c.proto:1: c"}, found)
}

// Each noun has its service, its tables in the docs and its numbers where the scaffold looks for them.
func TestFiles_ofEachNoun(t *testing.T) {
	for _, n := range nouns {
		t.Run(n.name, func(t *testing.T) {
			c, err := newCommand("..", options{Name: "Nudge" + strings.ToUpper(n.name[:1]) + n.name[1:]})
			require.NoError(t, err)
			files, err := c.files("..")
			require.NoError(t, err)
			require.Len(t, files, 10, "with the two that are generated from the proto, a new command is in 12 files")
			for _, f := range files {
				require.Contains(t, f.text, mark, f.path)
				if strings.HasSuffix(f.path, ".go") {
					source, err := format.Source([]byte(f.text))
					require.NoError(t, err, f.path)
					require.Equal(t, string(source), f.text, f.path)
				}
				if kept, err := os.ReadFile(filepath.Join("..", f.path)); err == nil {
					require.Equal(t, words(string(kept)), words(withoutNudges(f.text)), "%s: nothing else changes", f.path)
				}
			}
			verb, proto, commands, rest := files[0].text, files[5].text, files[7].text, files[8].text
			require.Contains(t, verb, fmt.Sprintf("CommandNumber() uint16 { return %d }", c.Number))
			require.Contains(t, proto, "rpc "+c.Name+"("+c.Name+"Request)")
			require.Regexp(t, fmt.Sprintf("\n\\| %d \\| `\\w+` \\| .*\n\\| %d \\| `%s` \\| ", c.Number-1, c.Number, c.Name), commands)
			require.Contains(t, rest, "| POST `"+c.Path+"/nudge` | "+c.Permission+" | ")
			require.Contains(t, rest, "`.nudge`")
		})
	}
}

// withoutNudges takes away what the scaffold has added.
func withoutNudges(text string) string {
	var kept strings.Builder
	inside := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimRight(line, "\n")
		switch {
		case inside != "":
			if bare == inside {
				inside = ""
			}
			continue
		case strings.HasPrefix(bare, "  // "+mark):
			continue
		case strings.HasPrefix(bare, "  rpc Nudge"):
			inside = "  }"
			continue
		case strings.HasPrefix(bare, "message Nudge"):
			inside = "}"
			continue
		case strings.Contains(bare, mark):
			continue
		}
		kept.WriteString(strings.ReplaceAll(line, ", `.nudge`", ""))
	}
	return strings.ReplaceAll(kept.String(), ",\n`.nudge`", "")
}

// words are those of a text, wherever its lines end.
func words(text string) []string { return strings.Fields(text) }

func TestNewCommand_completesWhatIsNotSaid(t *testing.T) {
	c, err := newCommand("..", options{Name: "ResizeQueue", Route: "PUT /queues/{name}/size", Permission: "mind:operator"})
	require.NoError(t, err)
	require.Equal(t, []string{"resize", "queue.resize", "resize_queue", "resizeQueue"}, []string{c.Verb, c.Action, c.Snake, c.Lower})
	require.Equal(t, []string{"PUT", "/queues/{name}/size", "mind:operator", "`mind:operator`", "operator"}, []string{c.Method, c.Route, c.Grants, c.Permitted, c.May})
	require.Equal(t, `"/queues/"+url.PathEscape(args[0])+"/size"`, c.CalledWith())
	require.Equal(t, 2, c.ActorKey())

	c, err = newCommand("..", options{Name: "MoveTenant", Noun: "node"})
	require.NoError(t, err)
	require.Equal(t, []string{"nodeverbs", "/cluster/nodes/{id}/move", "/nodes/{id}/move", "node.move"}, []string{c.Domain, c.Route, c.Second, c.Action})
}

func TestNewCommand_saysWhatIsWrong(t *testing.T) {
	for says, o := range map[string]options{
		"needs a name":                         {},
		`"pauseQueue" is no name of a command`: {Name: "pauseQueue"},
		`"Pause" is no name of a command`:      {Name: "Pause"},
		`"tenant" is no noun`:                  {Name: "PauseTenant"},
		"there is a DeleteQueue":               {Name: "DeleteQueue"},
		"verbs of a queue are in queueverbs":   {Name: "NudgeQueue", Domain: "jobverbs"},
		"is no route of a write":               {Name: "NudgeQueue", Route: "GET /queues/{name}/nudge"},
		"begins with /queues/{name}":           {Name: "NudgeQueue", Route: "POST /jobs/{id}/nudge"},
		`"view" is no permission of a write`:   {Name: "NudgeQueue", Permission: "view"},
		"the audit log has the action":         {Name: "ForgetNode"},
	} {
		_, err := newCommand("..", o)
		require.ErrorContains(t, err, says)
	}
	_, err := newCommand(t.TempDir(), options{Name: "NudgeQueue"})
	require.Error(t, err)
}

func TestFiles_areNotWrittenOver(t *testing.T) {
	c, err := newCommand("..", options{Name: "NudgeQueue"})
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "fsm"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "fsm/nudge_queue_test.go"), nil, 0o600))
	_, err = c.files(root)
	require.ErrorContains(t, err, "there is a file fsm/nudge_queue_test.go")
}
