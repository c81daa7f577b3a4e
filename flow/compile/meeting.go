package compile

import (
	"container/heap"
	"slices"

	"github.com/mindcoordinator/mind/flow/graph"
)

// several marks a node that more than one branch leads to.
const several = -1

// search looks for the node at which the branches of a node meet. It goes through the drawing in the order of the depths of nodes, so that
// all ways to a node are known when it comes to it, and stops when the rest cannot change the answer: a decision costs what its own
// branches have, not what follows them.
type search struct {
	c       *compiler
	through int
	r       *region
	// ahead are the nodes that were reached and not looked at, the least deep first.
	ahead byDepth
	// of has the branch that reached a node, by its number from 0, or several.
	of map[int]int
	// open is how many nodes ahead only one branch reached, by the branch; branches is how many branches have some, shared how many
	// nodes ahead several reached.
	open     []int
	branches int
	shared   int
	// first are the nodes of several branches to which an edge leads from a node of one.
	first map[int]bool
}

// meeting finds the node at which the branches of a node meet; "": there is none, in this region.
func (c *compiler) meeting(n *graph.Node, edges []*graph.Edge, r *region) string {
	if len(edges) < 2 {
		return ""
	}
	s := &search{c: c, through: c.numbers[n.ID], r: r, ahead: byDepth{depth: c.depths}, of: map[int]int{}, open: make([]int, len(edges)), first: map[int]bool{}}
	for branch, e := range edges {
		s.reach(e.Target.Node, branch)
	}
	for s.ahead.Len() > 0 && s.branches > 0 && (s.branches > 1 || s.shared > 0) {
		i := heap.Pop(&s.ahead).(int)
		branch := s.of[i]
		s.count(branch, -1)
		for _, e := range c.after[i] {
			s.reach(e.Target.Node, branch)
		}
	}
	var meets []string
	for i := range s.first {
		if s.of[i] == several {
			meets = append(meets, c.g.Nodes[i].ID)
		}
	}
	if len(meets) == 0 {
		return ""
	}
	slices.Sort(meets)
	if len(meets) > 1 {
		at, _ := c.g.Node(meets[1])
		c.crossing(at, "some of the branches of "+n.ID+" meet here, and others at "+meets[0]+": let all of them meet at one node")
	}
	return meets[0]
}

// reach notes that a branch, or several, leads to a node.
func (s *search) reach(id string, branch int) {
	i, ok := s.c.numbers[id]
	if !ok || i == s.through || id == s.r.stop || s.r.leaves(id) {
		return
	}
	if branch != several {
		s.first[i] = true
	}
	before, seen := s.of[i]
	switch {
	case !seen:
		s.of[i] = branch
		s.count(branch, 1)
		heap.Push(&s.ahead, i)
	case before != branch && before != several:
		// A node that was looked at is the beginning of a loop, which its body leads back to: it is in the branch that led to it.
		if s.ahead.has(i) {
			s.of[i] = several
			s.count(before, -1)
			s.count(several, 1)
		}
	}
}

// count adds to the nodes ahead of a branch, or of several.
func (s *search) count(branch, n int) {
	if branch == several {
		s.shared += n
		return
	}
	had := s.open[branch] > 0
	s.open[branch] += n
	switch has := s.open[branch] > 0; {
	case has && !had:
		s.branches++
	case had && !has:
		s.branches--
	}
}

// byDepth is a heap of the numbers of nodes.
type byDepth struct {
	depth []int
	nodes []int
	in    map[int]bool
}

func (h *byDepth) Len() int { return len(h.nodes) }

func (h *byDepth) Less(a, b int) bool {
	return h.depth[h.nodes[a]] < h.depth[h.nodes[b]]
}

func (h *byDepth) Swap(a, b int) { h.nodes[a], h.nodes[b] = h.nodes[b], h.nodes[a] }

func (h *byDepth) Push(x any) {
	if h.in == nil {
		h.in = map[int]bool{}
	}
	h.in[x.(int)] = true
	h.nodes = append(h.nodes, x.(int))
}

func (h *byDepth) Pop() any {
	last := h.nodes[len(h.nodes)-1]
	h.nodes = h.nodes[:len(h.nodes)-1]
	delete(h.in, last)
	return last
}

func (h *byDepth) has(node int) bool { return h.in[node] }

// depthsOf is how many edges the longest way to each node has. Edges that lead back do not count.
func (c *compiler) depthsOf() []int {
	const (
		open = 1
		done = 2
	)
	state := make([]int, len(c.after))
	var order []int // each node behind all that it leads to
	type frame struct{ node, next int }
	for start := range c.after {
		if state[start] != 0 {
			continue
		}
		state[start] = open
		for stack := []frame{{node: start}}; len(stack) > 0; {
			top := &stack[len(stack)-1]
			if top.next == len(c.after[top.node]) {
				state[top.node] = done
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			to, ok := c.numbers[c.after[top.node][top.next].Target.Node]
			top.next++
			if ok && state[to] == 0 {
				state[to] = open
				stack = append(stack, frame{node: to})
			}
		}
	}
	place, depths := make([]int, len(c.after)), make([]int, len(c.after))
	for at, i := range order {
		place[i] = at
	}
	for _, i := range slices.Backward(order) {
		for _, e := range c.after[i] {
			if to, ok := c.numbers[e.Target.Node]; ok && place[to] < place[i] {
				depths[to] = max(depths[to], depths[i]+1)
			}
		}
	}
	return depths
}
