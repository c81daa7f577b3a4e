package compile

import (
	"fmt"
	"maps"

	"github.com/mindcoordinator/mind/flow/graph"
)

// step is a block whose bodies are steps.
type step struct {
	// node is the node that it was made from.
	node *graph.Node
	id   string
	// fields are those of the block, without id, node and bodies.
	fields map[string]any
	// cases are the ways through an if or a match; fallback is the one that is taken otherwise, nil if there is none.
	cases    []way
	fallback *way
	// body is that of a loop, branches are those of a parallel.
	body     []step
	branches []way
	// leaves says that it ends the flow in the middle of it. No node says so: the drawing ends there.
	leaves bool
}

// way is a branch.
type way struct {
	edge   *graph.Edge
	name   string
	values []any
	steps  []step
}

// blocks are the steps as blocks of the intermediate form.
func blocks(steps []step) []any {
	all := make([]any, 0, len(steps))
	for i := range steps {
		all = append(all, steps[i].block())
	}
	return all
}

func (s *step) block() map[string]any {
	b := maps.Clone(s.fields)
	b["id"], b["node_id"] = s.id, s.node.ID
	switch b["kind"] {
	case "if":
		cases := []any{}
		for _, c := range s.cases {
			cases = append(cases, map[string]any{"when": graph.Bare(c.edge.Condition), "body": blocks(c.steps)})
		}
		b["cases"] = cases
	case "match":
		arms := []any{}
		for _, c := range s.cases {
			arms = append(arms, map[string]any{"values": c.values, "body": blocks(c.steps)})
		}
		b["arms"] = arms
	case "foreach", "while":
		b["body"] = blocks(s.body)
	case "parallel":
		branches := []any{}
		for _, w := range s.branches {
			branches = append(branches, map[string]any{"name": w.name, "body": blocks(w.steps)})
		}
		b["branches"] = branches
	}
	if s.fallback != nil {
		b["else"] = blocks(s.fallback.steps)
	}
	return b
}

// madeBy stands between the id of a node and what the compiler added for it.
const madeBy = "__"

// compiler makes the steps of a graph.
type compiler struct {
	g     *graph.Graph
	found []graph.Diagnostic
	// after has the edges of control that leave each node, in the order of the drawing.
	after map[string][]*graph.Edge
	// inputs has the edges of data that end at each node.
	inputs map[string][]*graph.Edge
	// binding has the name of the result of each node; "": only its id.
	binding map[string]string
	// placed are the nodes of the flow that have steps. No node has two.
	placed map[string]bool
	// crossed are the nodes about which a finding was made.
	crossed map[string]bool
}

func newCompiler(g *graph.Graph) *compiler {
	c := &compiler{g: g, after: map[string][]*graph.Edge{}, inputs: map[string][]*graph.Edge{}, crossed: map[string]bool{}}
	for i := range g.Edges {
		e := &g.Edges[i]
		if e.Type == graph.Data {
			c.inputs[e.Target.Node] = append(c.inputs[e.Target.Node], e)
		} else {
			c.after[e.Source.Node] = append(c.after[e.Source.Node], e)
		}
	}
	c.bind()
	return c
}

// add reports a finding about a node.
func (c *compiler) add(n *graph.Node, severity graph.Severity, code, format string, args ...any) {
	d := graph.Diagnostic{Severity: severity, Code: code, NodeID: n.ID, Message: fmt.Sprintf("node '%s': ", n.ID) + fmt.Sprintf(format, args...)}
	for i := range c.g.Nodes {
		if c.g.Nodes[i].ID == n.ID {
			d.Path = fmt.Sprintf("nodes[%d]", i)
		}
	}
	c.found = append(c.found, d)
}

func (c *compiler) fail(n *graph.Node, code, format string, args ...any) {
	c.add(n, graph.SeverityError, code, format, args...)
}
