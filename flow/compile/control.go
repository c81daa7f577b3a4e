package compile

import (
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

// maxDepth is how many regions are within each other. It is that of programs.
const maxDepth = 32

// maxSteps bounds the nodes of a flow. It is that of programs.
const maxSteps = 2_000

func (r *region) depth() int {
	n := 0
	for ; r != nil; r = r.outer {
		n++
	}
	return n
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
	edges := c.after[c.numbers[entry.ID]]
	if len(edges) == 0 {
		c.fail(entry, "EMPTY_BODY", "the flow does nothing: no edge leads from it")
		return steps
	}
	all := &region{loose: true, returns: true}
	next, more, _ := c.following(entry, edges, all)
	rest, _ := c.run(next, all)
	return slices.Concat(steps, more, rest)
}

// run makes the steps from a node to the end of the region. reaches says that a way leads to the stop of the region.
func (c *compiler) run(at string, r *region) (steps []step, reaches bool) {
	for at != "" && at != r.stop {
		n, ok := c.g.Node(at)
		switch {
		case !ok:
			return steps, true // the checker of drawings has said it
		case r.leaves(at):
			c.crossing(n, "the way to it leaves the branch, or the loop, that it comes from")
			return steps, true
		case c.placed[at]:
			c.crossing(n, "branches that begin apart lead to it, and they do not meet there: let all of them meet at one node, or repeat the node")
			return steps, true
		case r.depth() > maxDepth:
			c.fail(n, "TOO_DEEP", "branches and loops are nested more than %d deep", maxDepth)
			return steps, true
		case len(c.placed) > maxSteps:
			c.fail(n, "TOO_MANY_BLOCKS", "the flow has more than %d nodes: divide it with subflow_call", maxSteps)
			return steps, true
		}
		c.placed[at] = true
		if n.Breaks() {
			steps = append(steps, c.breakpoint(n))
		}
		made := c.step(n)
		edges := c.after[c.numbers[at]]
		var more []step
		decided, reached := false, false
		switch n.Type {
		case graph.LogicLoop:
			at = c.loop(n, &made, edges, r)
		case graph.LogicParallel:
			if at, reached = c.parallel(n, &made, edges, r); at == "" && reached {
				at = r.stop
			}
		case graph.LogicDecision:
			at, reached = c.decide(n, &made, edges, r)
			decided = true
		default:
			at, more, reached = c.following(n, edges, r)
			decided = len(more) > 0
		}
		steps = append(append(steps, made), more...)
		if decided && at == "" {
			return steps, reached // each way ends as it has to
		}
	}
	if at == "" && !r.loose {
		return c.leave(steps, r), false
	}
	return steps, at != ""
}

// leave ends the flow behind steps that nothing follows, although other branches go on.
func (c *compiler) leave(steps []step, r *region) []step {
	last := &steps[len(steps)-1]
	end, ok := c.end(last.node, r)
	if !ok {
		return steps
	}
	if end.fields == nil {
		// No expression can name the step: it gets a name of its own.
		name := "_result"
		for c.ids[name] {
			name += "_"
		}
		c.ids[name] = true
		last.fields["result_binding"] = name
		end.fields = returns(name)
	}
	return append(steps, end)
}

func returns(value string) map[string]any {
	return rigid(map[string]any{"kind": "return", "value": value})
}

// end is the step that ends the flow behind a node, without fields if no expression can name the result of the node. In a loop or a
// parallel there can be none.
func (c *compiler) end(n *graph.Node, r *region) (step, bool) {
	if !r.returns {
		meet, _ := c.g.Node(r.stop)
		where := r.stop
		if meet != nil && meet.Label != "" {
			where += " (" + meet.Label + ")"
		}
		c.fail(n, "BRANCH_ENDS", "the branch ends here, and others beside it go on at %s: in a loop or a parallel, connect it to that node", where)
		return step{}, false
	}
	if name := c.nameOf(n); name != "" {
		return c.extra(n, "end", returns(name)), true
	}
	return c.extra(n, "end", nil), true
}

// following finds the node that runs after another one. Behind conditional edges it is a decision of its own.
func (c *compiler) following(n *graph.Node, edges []*graph.Edge, r *region) (next string, more []step, reaches bool) {
	if slices.ContainsFunc(edges, func(e *graph.Edge) bool { return e.Type == graph.Conditional }) {
		made := c.extra(n, "next", map[string]any{"kind": "if"})
		next, reaches = c.decide(n, &made, edges, r)
		return next, []step{made}, reaches
	}
	return c.only(n, edges), nil, false
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

// decide makes the branches of an if or a match, and returns the node where they meet. "": they do not, and then reaches says that one
// of them leads to the stop of the region.
func (c *compiler) decide(n *graph.Node, made *step, edges []*graph.Edge, r *region) (meet string, reaches bool) {
	inner := &region{stop: r.stop, loose: r.loose, returns: r.returns, outer: r.outer}
	if meet = c.meeting(n, edges, r); meet != "" || r.depth() > maxDepth {
		inner = &region{stop: meet, returns: r.returns, outer: r}
	}
	way := func(e *graph.Edge) way {
		w := way{edge: e}
		var reached bool
		w.steps, reached = c.run(e.Target.Node, inner)
		reaches = reaches || reached
		return w
	}
	for _, e := range edges {
		if e.Type != graph.Conditional || strings.TrimSpace(e.Condition) == graph.Else {
			if made.fallback != nil {
				c.fail(n, "TWO_DEFAULTS", "the edges '%s' and '%s' are both taken if no condition is true: leave one of them", made.fallback.edge.ID, e.ID)
				continue
			}
			w := way(e)
			made.fallback = &w
			continue
		}
		w := way(e)
		if made.fields["kind"] == "match" {
			w.values = values(e.Condition)
		}
		made.cases = append(made.cases, w)
	}
	if made.fallback == nil && len(made.cases) > 0 {
		c.noDefault(n, made, meet, reaches, r)
	}
	return meet, reaches
}

// noDefault says where the flow goes if no condition of a decision is true.
func (c *compiler) noDefault(n *graph.Node, made *step, meet string, reaches bool, r *region) {
	where := "the flow ends"
	switch {
	case meet != "":
		where = "it goes on at " + meet
	case reaches:
		where = "it goes on behind the branches"
	case !r.loose:
		// No edge leads from here to the place where others go on.
		if end, ok := c.end(n, r); ok {
			if end.fields == nil || !made.added {
				end.fields = returns("null") // a decision has no result before it has ended
			}
			made.fallback = &way{steps: []step{end}}
		}
	case r.stop != "":
		where = "the iteration or the branch ends"
	}
	c.add(n, graph.SeverityWarning, "NO_DEFAULT", "if no condition is true, %s: an edge with the condition %s says something else", where, graph.Else)
}

// parallel makes the branches of a parallel, and returns the node where they join. "": they do not, and then reaches says that one of
// them leads to the stop of the region.
func (c *compiler) parallel(n *graph.Node, made *step, edges []*graph.Edge, r *region) (meet string, reaches bool) {
	inner := &region{stop: r.stop, loose: true, outer: r.outer}
	if meet = c.meeting(n, edges, r); meet != "" {
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
		for names[name] {
			name += "_"
		}
		names[name] = true
		w := way{edge: e, name: name}
		var reached bool
		w.steps, reached = c.run(e.Target.Node, inner)
		reaches = reaches || reached
		made.branches = append(made.branches, w)
	}
	return meet, reaches
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

// crossing reports a node that has no place in a program, once.
func (c *compiler) crossing(n *graph.Node, why string) {
	if !c.crossed[n.ID] {
		c.crossed[n.ID] = true
		c.fail(n, "CROSSING", "the branches cross: %s", why)
	}
}
