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
	// added says that the compiler made it, beside the step of its node: a breakpoint, a decision behind a node, an end.
	added bool
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

// madeBy stands between the id of a node and the name of a step that the compiler added for it.
const madeBy = "__"

// compiler makes the steps of a graph.
type compiler struct {
	g      *graph.Graph
	found  []graph.Diagnostic
	counts map[graph.Severity]int
	// numbers has a number for each node, and nodes has them back.
	numbers map[string]int
	// after has the edges of control that leave each node, by its number, in the order of the drawing.
	after [][]*graph.Edge
	// inputs has the edges of data that end at each node.
	inputs map[string][]*graph.Edge
	// binding has the name of the result of each node; "": only its id.
	binding map[string]string
	// placed are the nodes of the flow that have steps. No node has two.
	placed map[string]bool
	// crossed are the nodes about which a finding was made.
	crossed map[string]bool
	// ids are those of all steps that the compiler added, and of all nodes.
	ids map[string]bool
	// depths has how far each node is from the beginning, by its number.
	depths []int
}

func newCompiler(g *graph.Graph, found []graph.Diagnostic) *compiler {
	c := &compiler{
		g: g, found: found, counts: map[graph.Severity]int{}, numbers: map[string]int{}, inputs: map[string][]*graph.Edge{},
		crossed: map[string]bool{}, ids: map[string]bool{},
		after: make([][]*graph.Edge, len(g.Nodes)),
	}
	for i := range g.Nodes {
		c.numbers[g.Nodes[i].ID], c.ids[g.Nodes[i].ID] = i, true
		c.after[i] = g.After(g.Nodes[i].ID)
	}
	c.depths = c.depthsOf()
	for i := range g.Edges {
		if e := &g.Edges[i]; e.Type == graph.Data {
			c.inputs[e.Target.Node] = append(c.inputs[e.Target.Node], e)
		}
	}
	c.bind()
	return c
}

// extra returns a step that is added for a node, with an id that nothing else has.
func (c *compiler) extra(n *graph.Node, name string, fields map[string]any) step {
	id := n.ID + madeBy + name
	for c.ids[id] {
		id += "_"
	}
	c.ids[id] = true
	return step{node: n, id: id, fields: fields, added: true}
}

// maxFindings bounds the findings of each severity.
const maxFindings = 200

func (c *compiler) put(d graph.Diagnostic) {
	if c.counts[d.Severity]++; c.counts[d.Severity] <= maxFindings {
		c.found = append(c.found, d)
	}
}

// add reports a finding about a node.
func (c *compiler) add(n *graph.Node, severity graph.Severity, code, format string, args ...any) {
	c.put(graph.Diagnostic{
		Severity: severity, Code: code, NodeID: n.ID, Path: fmt.Sprintf("nodes[%d]", c.numbers[n.ID]),
		Message: fmt.Sprintf("node '%s': ", n.ID) + fmt.Sprintf(format, args...),
	})
}

func (c *compiler) fail(n *graph.Node, code, format string, args ...any) {
	c.add(n, graph.SeverityError, code, format, args...)
}

// addEdge reports a warning about an edge.
func (c *compiler) addEdge(e *graph.Edge, code, format string, args ...any) {
	d := graph.Diagnostic{Severity: graph.SeverityWarning, Code: code, EdgeID: e.ID, Message: fmt.Sprintf("edge '%s': ", e.ID) + fmt.Sprintf(format, args...)}
	for i := range c.g.Edges {
		if &c.g.Edges[i] == e {
			d.Path = fmt.Sprintf("edges[%d]", i)
		}
	}
	c.put(d)
}
