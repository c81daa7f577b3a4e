package fsm_test

import (
	"os"
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
	for _, c := range registry.Commands() {
		require.Contains(t, string(doc), "`"+c.Name+"`")
	}
	for _, r := range registry.Records() {
		require.Contains(t, string(doc), r.Name)
	}
}
