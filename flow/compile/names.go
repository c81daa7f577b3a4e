package compile

import (
	"regexp"

	"github.com/mindcoordinator/mind/flow/graph"
)

var identifierFmt = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func identifier(name string) bool {
	return identifierFmt.MatchString(name) && name != "input" && name != "trigger"
}

// bind names the results of the nodes: by result_binding, or else by the label, if no other node or variable has that name.
func (c *compiler) bind() {
	c.binding = map[string]string{}
	taken := map[string]int{}
	for i := range c.g.Variables {
		taken[c.g.Variables[i].Name]++
	}
	derived := map[string]string{}
	for i := range c.g.Nodes {
		n := &c.g.Nodes[i]
		taken[n.ID]++
		if name, ok := n.Config["result_binding"].(string); ok && name != "" {
			c.binding[n.ID] = name
			taken[name]++
			continue
		}
		if n.Type == graph.DataVariableSet {
			if name, ok := n.Config["name"].(string); ok {
				taken[name]++
			}
			continue
		}
		label := n.Label
		if ports := n.OutputPorts(); n.Type.Entry() && len(ports) > 0 {
			label = ports[0].Label
		}
		name := squeeze(label, '_')
		if name != "" && name[0] >= '0' && name[0] <= '9' {
			name = "_" + name
		}
		if identifier(name) && name != "in" && name != "true" && name != "false" && name != "null" {
			derived[n.ID] = name
			if !n.Type.Entry() || taken[name] == 0 {
				taken[name]++
			}
		}
	}
	for id, name := range derived {
		n, _ := c.g.Node(id)
		switch {
		case taken[name] == 1:
			c.binding[id] = name
		case n.Type.Entry() && c.onlyEntries(name, derived):
			c.binding[id] = name
		}
	}
}

// onlyEntries says whether all nodes that would have a name are entries: each flow has one of them.
func (c *compiler) onlyEntries(name string, derived map[string]string) bool {
	for id, other := range derived {
		if n, _ := c.g.Node(id); other == name && !n.Type.Entry() {
			return false
		}
	}
	return true
}

// nameOf is the name by which expressions use the result of a node; "": none can.
func (c *compiler) nameOf(n *graph.Node) string {
	if identifier(n.ID) {
		return n.ID
	}
	return c.binding[n.ID]
}
