package web

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
	"github.com/mindcoordinator/mind/flow/graph"
)

var update = flag.Bool("update", false, "write the table of the kinds that the unit tests of the canvas use")

// The unit tests of the canvas use the table of the kinds that the gateway answers with.
func TestSources_haveTheKinds(t *testing.T) {
	const file = "src/core/flow/tests/kinds.json"
	now, err := json.MarshalIndent(map[string]any{"kinds": graph.Kinds(), "categories": graph.Categories(), "functions": syntax.Signatures()}, "", " ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, append(now, '\n'), 0o644)) //nolint:gosec // a source like those beside it
	}
	then, err := os.ReadFile(file)
	require.NoError(t, err)
	require.JSONEq(t, string(now), string(then), "go test ./web -run Kinds -update; then make web")
}
