package compile

import (
	"maps"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/graph"
)

// region is a part of the drawing that becomes one list of steps.
type region struct {
	// stop is the node in front of which the region ends; "": it ends where the drawing does.
	stop string
	// loose says that it may also end anywhere else: what follows stop follows then, too.
	loose bool
	// returns says that a step in it may end the flow.
	returns bool
	outer   *region
}

// leaves says whether a node is the end of a region around this one: what leads there leaves this one without passing its end.
func (r *region) leaves(id string) bool {
	for o := r.outer; o != nil; o = o.outer {
		if o.stop == id && o.stop != "" && o.stop != r.stop {
			return true
		}
	}
	return false
}

// flow makes the steps of an entry.
func (c *compiler) flow(entry *graph.Node) []step {
	c.placed = map[string]bool{entry.ID: true}
	steps := []step{c.entry(entry)}
	edges := c.after[entry.ID]
	if len(edges) == 0 {
		c.fail(entry, "EMPTY_BODY", "the flow does nothing: no edge leads from it")
		return steps
	}
	all := &region{loose: true, returns: true}
	next, more := c.following(entry, edges, all)
	rest, _ := c.run(next, all)
	return slices.Concat(steps, more, rest)
}

// run makes the steps from a node to the end of the region, and says whether they end at its stop.
func (c *compiler) run(at string, r *region) (steps []step, stops bool) {
	for at != "" && at != r.stop {
		n, ok := c.g.Node(at)
		switch {
		case !ok:
			return steps, true // the checker of drawings has said it
		case r.leaves(at):
			c.crossing(n, "what leads to it leaves the branch, or the loop, that it is in")
			return steps, true
		case c.placed[at]:
			c.crossing(n, "branches that begin apart lead to it, and they do not meet there: let all of them meet at one node, or repeat the node")
			return steps, true
		}
		c.placed[at] = true
		if n.Breaks() {
			steps = append(steps, c.breakpoint(n))
		}
		made := c.step(n)
		edges := c.after[at]
		var more []step
		switch n.Type {
		case graph.LogicLoop:
			at = c.loop(n, &made, edges, r)
			steps = append(steps, made)
		case graph.LogicParallel:
			at, stops = c.parallel(n, &made, edges, r)
			steps = append(steps, made)
			if at == "" && stops {
				return steps, true
			}
		case graph.LogicDecision:
			at = c.decide(n, &made, edges, r)
			steps = append(steps, made)
			if at == "" {
				return steps, true // each branch ends as it has to
			}
		default:
			steps = append(steps, made)
			at, more = c.following(n, edges, r)
			if steps = append(steps, more...); at == "" && len(more) > 0 {
				return steps, true
			}
		}
	}
	if at == "" && !r.loose {
		return c.leave(steps, r), true
	}
	return steps, at != ""
}

// leave ends the flow at the end of steps that nothing follows, although other branches go on.
func (c *compiler) leave(steps []step, r *region) []step {
	if len(steps) == 0 {
		return steps
	}
	last := &steps[len(steps)-1]
	if !r.returns {
		meet, _ := c.g.Node(r.stop)
		where := r.stop
		if meet != nil && meet.Label != "" {
			where += " (" + meet.Label + ")"
		}
		c.fail(last.node, "BRANCH_ENDS", "the branch ends here, and others beside it go on at %s: in a loop or a parallel, connect it to that node", where)
		return steps
	}
	value := "null"
	if name := c.nameOf(last.node); name != "" {
		value = name
	}
	return append(steps, step{
		node: last.node, id: last.node.ID + madeBy + "end", leaves: true,
		fields: map[string]any{"kind": "rigid", "statements": []any{map[string]any{"kind": "return", "value": value}}},
	})
}

// following finds what runs after a node. Behind conditional edges that is a decision of its own.
func (c *compiler) following(n *graph.Node, edges []*graph.Edge, r *region) (next string, more []step) {
	if slices.ContainsFunc(edges, func(e *graph.Edge) bool { return e.Type == graph.Conditional }) {
		made := step{node: n, id: n.ID + madeBy + "next", fields: map[string]any{"kind": "if"}}
		next = c.decide(n, &made, edges, r)
		return next, []step{made}
	}
	return c.only(n, edges), nil
}

// only is the target of the one edge that there may be.
func (c *compiler) only(n *graph.Node, edges []*graph.Edge) string {
	if len(edges) > 1 {
		c.fail(n, "FAN_OUT", "%d edges lead from it: put a logic_parallel or a logic_decision behind it", len(edges))
	}
	if len(edges) == 0 {
		return ""
	}
	return edges[0].Target.Node
}

// decide makes the branches of an if or a match, and returns the node where they meet; "": they end with the region.
func (c *compiler) decide(n *graph.Node, made *step, edges []*graph.Edge, r *region) string {
	inner := &region{stop: r.stop, loose: r.loose, returns: r.returns, outer: r.outer}
	meet := c.meeting(n, edges, r)
	if meet != "" {
		inner = &region{stop: meet, returns: r.returns, outer: r}
	}
	for _, e := range edges {
		if e.Type != graph.Conditional || strings.TrimSpace(e.Condition) == graph.Else {
			if made.fallback != nil {
				c.fail(n, "TWO_DEFAULTS", "the edges '%s' and '%s' are both taken if no condition is true: leave one of them", made.fallback.edge.ID, e.ID)
				continue
			}
			made.fallback = &way{edge: e}
			made.fallback.steps, _ = c.run(e.Target.Node, inner)
			continue
		}
		w := way{edge: e}
		if made.fields["kind"] == "match" {
			w.values = values(e.Condition)
		}
		w.steps, _ = c.run(e.Target.Node, inner)
		made.cases = append(made.cases, w)
	}
	if made.fallback == nil && len(made.cases) > 0 {
		where := "the flow ends"
		if meet != "" {
			where = "it goes on at " + meet
		} else if r.stop != "" {
			where = "it goes on behind the branches"
		}
		c.add(n, graph.SeverityWarning, "NO_DEFAULT", "if no condition is true, %s: an edge with the condition %s says something else", where, graph.Else)
	}
	return meet
}

// parallel makes the branches of a parallel. Its end is where they join, or else that of the region.
func (c *compiler) parallel(n *graph.Node, made *step, edges []*graph.Edge, r *region) (next string, stops bool) {
	inner := &region{stop: r.stop, loose: true, outer: r.outer}
	meet := c.meeting(n, edges, r)
	if meet != "" {
		inner = &region{stop: meet, loose: true, outer: r}
	}
	ports, names := map[string]bool{}, map[string]bool{}
	for _, e := range edges {
		if e.Type == graph.Conditional {
			c.fail(n, "BAD_EDGE", "the edge '%s' has a condition: each branch of a parallel runs", e.ID)
		}
		if ports[e.Source.Port] {
			c.fail(n, "FAN_OUT", "two edges begin at the port '%s': give each branch a port of its own", e.Source.Port)
			continue
		}
		ports[e.Source.Port] = true
		name := e.Source.Port
		if p, ok := n.Output(name); ok && p.Label != "" && !names[p.Label] {
			name = p.Label
		}
		names[name] = true
		w := way{edge: e, name: name}
		var reached bool
		w.steps, reached = c.run(e.Target.Node, inner)
		stops = stops || reached
		made.branches = append(made.branches, w)
	}
	return meet, stops
}

// loop makes the body of a loop, and returns what follows it.
func (c *compiler) loop(n *graph.Node, made *step, edges []*graph.Edge, r *region) string {
	var body, done []*graph.Edge
	for _, e := range edges {
		if e.Type == graph.Conditional {
			c.fail(n, "BAD_EDGE", "the edge '%s' has a condition: put a logic_decision behind the loop, or into its body", e.ID)
		}
		if e.Source.Port == graph.BodyPort {
			body = append(body, e)
		} else {
			done = append(done, e)
		}
	}
	if first := c.only(n, body); first != "" && first != n.ID {
		made.body, _ = c.run(first, &region{stop: n.ID, loose: true, outer: r})
	}
	return c.only(n, done)
}

// meeting finds the node at which the branches of a node meet; "": there is none, in this region.
func (c *compiler) meeting(n *graph.Node, edges []*graph.Edge, r *region) string {
	counts := map[string]int{}
	for _, e := range edges {
		for id := range c.reach(e.Target.Node, n.ID, r) {
			counts[id]++
		}
	}
	shared := map[string]bool{}
	for id, k := range counts {
		if k > 1 {
			shared[id] = true
		}
	}
	if len(shared) == 0 {
		return ""
	}
	// first are the shared nodes to which an edge leads from a node that is not.
	first := map[string]bool{}
	for _, e := range edges {
		if shared[e.Target.Node] {
			first[e.Target.Node] = true
		}
	}
	for id := range counts {
		if shared[id] {
			continue
		}
		for _, e := range c.after[id] {
			if shared[e.Target.Node] {
				first[e.Target.Node] = true
			}
		}
	}
	meets := slices.Sorted(maps.Keys(first))
	if len(meets) > 1 {
		at, _ := c.g.Node(meets[1])
		c.crossing(at, "some of the branches of "+n.ID+" meet here, and others at "+meets[0]+": let all of them meet at one node")
	}
	return meets[0]
}

// reach has the nodes that are reached from a node without passing the end of a region.
func (c *compiler) reach(from, through string, r *region) map[string]bool {
	seen := map[string]bool{}
	queue := []string{from}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if seen[id] || id == through || id == r.stop || r.leaves(id) {
			continue
		}
		seen[id] = true
		for _, e := range c.after[id] {
			queue = append(queue, e.Target.Node)
		}
	}
	return seen
}

// crossing reports a node that has no place in a program, once.
func (c *compiler) crossing(n *graph.Node, why string) {
	if !c.crossed[n.ID] {
		c.crossed[n.ID] = true
		c.fail(n, "CROSSING", "the branches cross: %s", why)
	}
}
