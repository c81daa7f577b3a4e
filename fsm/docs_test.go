package fsm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// registry has the records and commands of all domains.
var registry = kernel.Register(fsm.Domains()...)

func TestDocs_nameEveryCommandAndRecord(t *testing.T) {
	doc, err := os.ReadFile("../docs/develop/fsm.md")
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(doc)), " ") // a name may be on two lines
	for _, c := range registry.Commands() {
		require.True(t, strings.Contains(page, "`"+c.Name+"`"), "docs/develop/fsm.md lacks the command %s", c.Name)
	}
	for _, r := range registry.Records() {
		require.True(t, strings.Contains(page, r.Name), "docs/develop/fsm.md lacks the record %q", r.Name)
	}
}
