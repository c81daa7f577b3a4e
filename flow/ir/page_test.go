package ir

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage_hasTheFieldsOfEachKind compares the tables of docs/use/flows.md with the table of kinds.
func TestPage_hasTheFieldsOfEachKind(t *testing.T) {
	text, err := os.ReadFile("../../docs/use/flows.md")
	require.NoError(t, err)
	fields := map[string][]string{}
	name := regexp.MustCompile("`([a-z_]+)`")
	list := func(cell string) (all []string) {
		for _, m := range name.FindAllStringSubmatch(cell, -1) {
			all = append(all, m[1])
		}
		return all
	}
	_, table, found := strings.Cut(string(text), "| kind | fields | what it does |\n|---|---|---|\n")
	require.True(t, found)
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		fields[list(cells[1])[0]] = list(cells[2])
	}
	_, table, found = strings.Cut(string(text), "### Decisions\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	fields[string(Checkpoint)] = nil
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			fields[string(Checkpoint)] = append(fields[string(Checkpoint)], list(cells[1])...)
		}
	}
	_, rest, found := strings.Cut(string(text), "Kinds that do not run yet, with their fields:\n\n")
	require.True(t, found)
	rest, _, _ = strings.Cut(rest, "\n\n")
	for item := range strings.SplitSeq(strings.TrimPrefix(rest, "- "), "\n- ") {
		kind, has, _ := strings.Cut(item, ": ")
		fields[list(kind)[0]] = list(has)
	}
	fields[string(Guarded)] = append(fields[string(Guarded)], fields[string(Flexible)]...)
	require.Len(t, fields, len(kinds))
	for kind, has := range kinds {
		require.ElementsMatch(t, has.fields, fields[string(kind)], "%s", kind)
	}

	_, table, _ = strings.Cut(string(text), "## Blocks\n")
	table, _, _ = strings.Cut(table, "| kind |")
	for _, field := range common {
		require.Contains(t, table, "`"+field+"`")
	}
}
