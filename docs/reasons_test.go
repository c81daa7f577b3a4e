package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	meanings "github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const reasonsPage = "use/reasons.md"

// The page of reasons is made from the table of codes: `go test ./docs -run Reasons -update` writes it.
func TestReasons_thePageIsMadeFromTheTable(t *testing.T) {
	page := reasons()
	if *update {
		require.NoError(t, os.WriteFile(reasonsPage, []byte(page), 0o644))
	}
	kept, err := os.ReadFile(reasonsPage)
	require.NoError(t, err)
	require.Equal(t, page, string(kept), "run: go test ./docs -run Reasons -update")
}

// reasons makes the page.
func reasons() string {
	var out strings.Builder
	out.WriteString(`# Reasons

Why a job waits or ended, why a node is away, why a request was refused: the cluster keeps a code with parameters, and
puts it into words when somebody reads it. This page has every code. ` + "`mind explain --code CODE`" + ` prints one of them, also
by its number or by some words of its sentence: ` + "`mind explain --code 'no node is ready'`" + `.

{0} is the first parameter of a sentence, {1} the second. The page is made from the code.
`)
	about := ""
	for _, c := range reason.Codes() {
		m := meanings.MeaningOf(c)
		if m.About != about {
			about = m.About
			fmt.Fprintf(&out, "\n## %s%s\n\n", strings.ToUpper(about[:1]), about[1:])
		}
		label := ""
		if m.Example {
			label = "for example: "
		}
		entry := fmt.Sprintf("`%s` (%d): %s%s.", m.Code, m.Number, label, m.Sentence)
		for i, what := range m.Parameters {
			separator := ","
			if i == 0 {
				separator = ""
			}
			entry += fmt.Sprintf("%s {%d} is %s", separator, i, what)
			if i == len(m.Parameters)-1 {
				entry += "."
			}
		}
		if m.Remedy != "" {
			entry += " **What to do:** " + m.Remedy + "."
		}
		out.WriteString("- " + strings.TrimPrefix(wrap(entry, "  "), "  "))
	}
	return out.String()
}
