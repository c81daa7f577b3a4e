package compile_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
)

// large draws a flow of 200 nodes: decisions in a row, each with two branches that meet.
func large() []byte {
	f := draw()
	last := "start"
	for i := range 50 {
		d, a, b, z := fmt.Sprint("d", i), fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("z", i)
		f.node(d, graph.LogicDecision, nil).text(a, b)
		f.node(z, graph.ToolPlugin, m{"args": m{"command_config": m{"argv": []any{"echo", "{{" + d + "}}"}}}})
		f.edge(last+" -> "+d, d+" -[input.x > 1 && request.y != 'z']-> "+a, d+" -[else]-> "+b, a+" -> "+z, b+" -> "+z)
		last = z
	}
	return f.json()
}

// A flow of 200 nodes: 50 ms is the bar.
func BenchmarkCompile_200nodes(b *testing.B) {
	content := large()
	for b.Loop() {
		program, found := compile.Program(content)
		require.NotNil(b, program, "%v", found)
	}
}

func BenchmarkManifest_200nodes(b *testing.B) {
	content := large()
	for b.Loop() {
		manifest, _ := compile.Manifest(content)
		require.NotNil(b, manifest)
	}
}
