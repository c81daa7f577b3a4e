package compile

import (
	"regexp"

	"github.com/mindcoordinator/mind/flow/graph"
)

var identifierFmt = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// identifier says whether expressions can use a name, and mean by it what was bound to it.
func identifier(name string) bool {
	switch name {
	case "input", "trigger", "true", "false", "null", "in":
		return false
	}
	return identifierFmt.MatchString(name)
}

// bind names the results of the nodes: by result_binding, or else by the label, if nothing else has that name.
func (c *compiler) bind() {
	c.binding = map[string]string{}
	// Names that blocks bind without saying so.
	taken := map[string]bool{"item": true, "index": true, "error": true, "result": true}
	for i := range c.g.Variables {
		taken[c.g.Variables[i].Name] = true
	}
	for i := range c.g.Nodes {
		n := &c.g.Nodes[i]
		taken[n.ID] = true
		for _, field := range []string{"result_binding", "var"} {
			if name, ok := n.Config[field].(string); ok {
				taken[name] = true
			}
		}
		if name, ok := n.Config["name"].(string); ok && n.Type == graph.DataVariableSet {
			taken[name] = true
		}
		if name, ok := n.Config["result_binding"].(string); ok && name != "" && !n.Type.Entry() {
			c.binding[n.ID] = name
		}
	}
	derived, times := map[string]string{}, map[string]int{}
	entries := map[string]string{}
	for i := range c.g.Nodes {
		n := &c.g.Nodes[i]
		switch ports := n.OutputPorts(); {
		case c.binding[n.ID] != "":
		case n.Type.Entry():
			if len(ports) > 0 {
				entries[n.ID] = label(ports[0].Label)
			}
		case n.Type != graph.DataVariableSet:
			derived[n.ID] = label(n.Label)
			times[derived[n.ID]]++
		}
	}
	for id, name := range derived {
		if identifier(name) && !taken[name] && times[name] == 1 {
			c.binding[id] = name
			c.ids[name] = true
		}
	}
	// Each flow has one entry, so several may have a name.
	for id, name := range entries {
		if identifier(name) && !taken[name] && times[name] == 0 {
			c.binding[id] = name
		}
	}
	for name := range taken {
		c.ids[name] = true
	}
	c.shadowed()
}

// label is a label as a name.
func label(text string) string {
	name := squeeze(text, '_')
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// shadowed reports nodes in the body of a loop whose name is that of the item: one of the two would be lost.
func (c *compiler) shadowed() {
	for i := range c.g.Nodes {
		loop := &c.g.Nodes[i]
		if loop.Type != graph.LogicLoop || config(loop, "style", "foreach") == "while" {
			continue
		}
		item := config(loop, "var", "item")
		for id := range c.g.Body(loop.ID) {
			n, ok := c.g.Node(id)
			if ok && (n.ID == item || c.binding[id] == item || n.ID == "index" || c.binding[id] == "index") {
				c.fail(n, "NAME_TAKEN", "its result has the name of the item, or of the number, of the loop '%s' around it", loop.ID)
			}
		}
	}
}

// nameOf is the name by which expressions use the result of a node; "": none can.
func (c *compiler) nameOf(n *graph.Node) string {
	if identifier(n.ID) {
		return n.ID
	}
	return c.binding[n.ID]
}
