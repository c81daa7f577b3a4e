package expr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// The parser and the evaluator have the same functions.
func TestFunctions_eachDoesSomething(t *testing.T) {
	require.Len(t, calls, len(syntax.Functions))
	for name, f := range syntax.Functions {
		require.NotNil(t, calls[f.Index], name)
	}
}
