package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/expr"
)

func (c *checker) edges() {
	seen := map[string]bool{}
	used := map[End]bool{}
	for i := range c.g.Edges {
		e := &c.g.Edges[i]
		here := c.edge(i, e)
		switch {
		case e.ID == "":
			here.error("NAME_MISSING", "an edge has no id")
		case seen[e.ID]:
			here.error("NAME_TWICE", "there are two edges of the id '%s'", e.ID)
		}
		seen[e.ID] = true
		used[e.Source] = true
		if !slices.Contains([]EdgeType{Sequential, Conditional, Data}, e.Type) {
			here.field("type").error("BAD_EDGE", "edge '%s': there is no type '%s': sequential, conditional and data are", e.ID, e.Type)
		}
		c.end(here, "source", e.ID, e.Source, (*Node).Output, "output")
		c.end(here, "target", e.ID, e.Target, (*Node).Input, "input")
		c.condition(here, e)
	}
	c.unused(used)
}

// end checks one end of an edge.
func (c *checker) end(here place, side, id string, end End, port func(*Node, string) (Port, bool), kind string) {
	n, ok := c.g.Node(end.Node)
	if !ok {
		here.field(side).error("NO_NODE", "edge '%s': there is no node '%s'", id, end.Node)
		return
	}
	if _, ok := port(n, end.Port); !ok && n.Type.Known() {
		here.field(side).error("NO_PORT", "edge '%s': %s node '%s' has no %s port '%s'", id, side, n.ID, kind, end.Port)
	}
}

// condition checks that of an edge. After a match it is a value, and otherwise an expression.
func (c *checker) condition(here place, e *Edge) {
	text := strings.TrimSpace(e.Condition)
	switch {
	case e.Type != Conditional:
		if text != "" {
			here.field("condition").warning("UNUSED_CONDITION", "edge '%s': a %s edge has no condition", e.ID, e.Type)
		}
		return
	case text == "":
		here.field("condition").error("FIELD_MISSING", "edge '%s': a conditional edge needs a condition, or %s", e.ID, Else)
		return
	case text == Else:
		return
	}
	if n, ok := c.g.Node(e.Source.Node); ok && n.Matches() {
		return
	}
	if _, err := expr.Parse(Bare(text)); err != nil {
		here.field("condition").error("BAD_CONDITION", "edge '%s': the condition '%s' cannot be read: %s", e.ID, text, err)
	}
}

// Matches says whether the conditions behind the node are values of its subject.
func (n *Node) Matches() bool { return n.Type == LogicDecision && n.Config["style"] == "match" }

// Bare returns the expression in a text that is one place and nothing else, or the text.
func Bare(text string) string {
	if inner, ok := strings.CutPrefix(text, "{{"); ok && strings.HasSuffix(inner, "}}") && !strings.Contains(inner, "{{") {
		return strings.TrimSpace(strings.TrimSuffix(inner, "}}"))
	}
	return text
}

// unused reports outputs at which no edge begins, of nodes that have others: the flow may have been meant to go on there.
func (c *checker) unused(used map[End]bool) {
	for i := range c.g.Nodes {
		n := &c.g.Nodes[i]
		ports := n.OutputPorts()
		if len(ports) < 2 && !n.Type.Entry() {
			continue
		}
		for _, p := range ports {
			if !used[End{n.ID, p.ID}] && !(n.Type == LogicLoop && p.ID == "out_done") {
				c.node(i, n).field("outputs").warning("UNUSED_PORT", "node '%s' has an unused output port '%s'", n.ID, p.ID)
			}
		}
	}
}

func (c *checker) entries() {
	entries := 0
	for i := range c.g.Nodes {
		if c.g.Nodes[i].Type.Entry() {
			entries++
		}
	}
	switch {
	case entries == 0:
		c.at("nodes").error("NO_ENTRY", "flow has no entry-point node")
		return
	case entries > maxEntries:
		c.at("nodes").error("BAD_LIMIT", "the flow has %d entries, and at most %d are allowed", entries, maxEntries)
		return
	}
	reached := c.g.reach()
	for i := range c.g.Nodes {
		if n := &c.g.Nodes[i]; !reached[n.ID] && n.ID != "" && n.Type.Known() {
			c.node(i, n).warning("UNREACHABLE", "node '%s' never runs: no edge leads to it from an entry", n.ID)
		}
	}
}

// After has the edges of control that lead from a node, in the order of the drawing.
func (g *Graph) After(node string) []*Edge {
	if g.following == nil {
		g.following = map[string][]*Edge{}
		for i := range g.Edges {
			if e := &g.Edges[i]; e.Type != Data {
				g.following[e.Source.Node] = append(g.following[e.Source.Node], e)
			}
		}
	}
	return g.following[node]
}

// reach has the nodes that run: those to which edges lead from an entry.
func (g *Graph) reach() map[string]bool {
	reached := map[string]bool{}
	var queue []string
	for i := range g.Nodes {
		if g.Nodes[i].Type.Entry() {
			queue = append(queue, g.Nodes[i].ID)
		}
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if !reached[id] {
			reached[id] = true
			for _, e := range g.After(id) {
				queue = append(queue, e.Target.Node)
			}
		}
	}
	return reached
}

// cycles reports a way that leads back to where it began, unless it is the body of a loop that returns to it.
func (c *checker) cycles() {
	const (
		open = 1
		done = 2
	)
	state := map[string]int{}
	var path []string
	// visit returns the edge that closes a circle, and the circle.
	var visit func(id string) (*Edge, []string)
	visit = func(id string) (*Edge, []string) {
		state[id] = open
		path = append(path, id)
		for _, e := range c.g.After(id) {
			next := e.Target.Node
			if n, ok := c.g.Node(next); ok && n.Type == LogicLoop && c.within(next, id) {
				continue
			}
			switch state[next] {
			case open:
				return e, append(slices.Clone(path[slices.Index(path, next):]), next)
			case done:
			default:
				if closing, circle := visit(next); circle != nil {
					return closing, circle
				}
			}
		}
		path = path[:len(path)-1]
		state[id] = done
		return nil, nil
	}
	for i := range c.g.Nodes {
		id := c.g.Nodes[i].ID
		if state[id] != 0 {
			continue
		}
		path = nil
		closing, circle := visit(id)
		if circle == nil {
			continue
		}
		at := place{c: c, path: "edges", node: circle[0], edge: closing.ID}
		for k := range c.g.Edges {
			if &c.g.Edges[k] == closing {
				at.path = fmt.Sprintf("edges[%d]", k)
			}
		}
		at.error("CYCLE", "cycle detected: %s; only the body of a logic_loop leads back", strings.Join(circle, " -> "))
		return
	}
}

// within says whether a node is in the body of a loop: reached from its port out_body without passing it again.
func (c *checker) within(loop, node string) bool {
	if c.bodies == nil {
		c.bodies = map[string]map[string]bool{}
	}
	if c.bodies[loop] == nil {
		c.bodies[loop] = c.g.Body(loop)
	}
	return c.bodies[loop][node]
}

// Body has the nodes that are reached from the port out_body of a loop without passing the loop itself.
func (g *Graph) Body(loop string) map[string]bool {
	var queue []string
	for _, e := range g.After(loop) {
		if e.Source.Port == BodyPort {
			queue = append(queue, e.Target.Node)
		}
	}
	body := map[string]bool{}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if id != loop && !body[id] {
			body[id] = true
			for _, e := range g.After(id) {
				queue = append(queue, e.Target.Node)
			}
		}
	}
	return body
}

// The ports of a loop.
const (
	BodyPort = "out_body"
	DonePort = "out_done"
)

// String names an end for people.
func (e End) String() string { return fmt.Sprintf("%s.%s", e.Node, e.Port) }
