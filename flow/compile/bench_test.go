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

// row draws decisions in a row: the branches of each meet at the next one, or one of them ends.
func row(decisions int, ends bool) []byte {
	f := draw()
	last := "start"
	for i := range decisions {
		d, e := fmt.Sprint("d", i), fmt.Sprint("e", i)
		f.node(d, graph.LogicDecision, nil)
		f.edge(last + " -> " + d)
		if i > 0 && !ends {
			f.edge(last + " -[input.x > 1]-> " + d)
		}
		if ends {
			f.text(e)
			f.edge(d + " -[input.x > 1]-> " + e)
		}
		last = d
	}
	f.text("z")
	f.edge(last+" -[input.x > 1]-> z", last+" -[else]-> z")
	return f.json()
}

// Decisions in a row up to the bound of a flow: the time follows their number, not its square.
func BenchmarkCheck_decisionsInARow(b *testing.B) {
	for _, n := range []int{350, 700, 1400} {
		for name, content := range map[string][]byte{"meet": row(n, false), "end": row(n/2, true)} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				for b.Loop() {
					compile.Check(content)
				}
			})
		}
	}
}
