package compile

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/graph"
)

// config is a field of a node, or what holds without it.
func config(n *graph.Node, field string, without any) any {
	if v, ok := n.Config[field]; ok && v != nil && v != "" {
		return v
	}
	return without
}

// entry is the step that binds the value with which the flow begins to the label of its port.
func (c *compiler) entry(n *graph.Node) step {
	fields := rigid(map[string]any{"kind": "expression", "expression": "input"})
	if name := c.binding[n.ID]; name != "" {
		fields["result_binding"] = name
	}
	return step{node: n, id: n.ID, fields: fields}
}

// breakpoint asks before a node runs.
func (c *compiler) breakpoint(n *graph.Node) step {
	label := n.Label
	if label == "" {
		label = n.ID
	}
	return c.extra(n, "breakpoint", map[string]any{
		"kind": "checkpoint", "type": "debug_breakpoint", "prompt": "Breakpoint before " + strings.ReplaceAll(label, "{{", "{ {"),
		"options": []any{"continue"},
	})
}

func rigid(statement map[string]any) map[string]any {
	return map[string]any{"kind": "rigid", "statements": []any{statement}}
}

// call is a call of a plugin, with those fields of a node that it has.
func call(n *graph.Node, plugin, method string, fields ...string) map[string]any {
	args := map[string]any{}
	for _, field := range fields {
		if v := config(n, field, nil); v != nil {
			args[field] = v
		}
	}
	return rigid(map[string]any{"kind": "plugin_call", "plugin": plugin, "method": method, "args": args})
}

// step is that of a node, without its bodies.
func (c *compiler) step(n *graph.Node) step {
	b := c.fields(n)
	for field := range map[string]bool{"timeout": true, "retry": true, "on_failure": true} {
		if v := config(n, field, nil); v != nil {
			b[field] = v
		}
	}
	if name := c.binding[n.ID]; name != "" {
		b["result_binding"] = name
	}
	if bound := c.bindings(n, b); len(bound) > 0 {
		b["input_bindings"] = bound
	}
	return step{node: n, id: n.ID, fields: b}
}

// fields are those of the block of a node that its kind adds.
func (c *compiler) fields(n *graph.Node) map[string]any {
	switch n.Type {
	case graph.LLMRigid:
		return rigid(map[string]any{"kind": "expression", "template": config(n, "template", "")})
	case graph.LLMGuarded, graph.LLMFlexible:
		return c.model(n)
	case graph.LogicDecision:
		if n.Matches() {
			return map[string]any{"kind": "match", "subject": config(n, "subject", "null")}
		}
		return map[string]any{"kind": "if"}
	case graph.LogicLoop:
		return loopFields(n)
	case graph.LogicParallel:
		return pick(n, map[string]any{"kind": "parallel"}, "max_concurrent", "fail_fast", "join")
	case graph.ToolPlugin:
		return plugin(n)
	case graph.ToolHTTP:
		s := pick(n, map[string]any{"kind": "http_call", "method": "GET"}, "method", "url", "headers", "body")
		return rigid(s)
	case graph.DataVariableSet:
		return rigid(pick(n, map[string]any{"kind": "assign"}, "name", "value"))
	case graph.Checkpoint, graph.HITLDecision, graph.HITLReview:
		return c.checkpoint(n)
	case graph.QueuePublish:
		return call(n, "scaiqueue", "publish", "scope", "queue", "message_type", "payload")
	case graph.QueueConsume:
		return call(n, "scaiqueue", "consume", "scope", "queue", "message_type")
	case graph.QueueEscalation:
		return call(n, "scaiqueue", "escalate", "scope", "queue", "reason", "payload")
	case graph.ComputeProvision:
		return call(n, "scaibunker", "create", "image", "lifecycle", "cpu_millicores", "memory_mb", "disk_mb", "gpu_count", "network_profile")
	case graph.ComputeExec:
		return call(n, "scaibunker", "exec", "command", "timeout_s")
	case graph.ComputeFileUpload:
		return call(n, "scaibunker", "write_file", "path", "content")
	case graph.ComputeFileDownload:
		return call(n, "scaibunker", "read_file", "path")
	case graph.ComputeDestroy:
		return call(n, "scaibunker", "destroy")
	case graph.SubflowCall:
		b := pick(n, map[string]any{"kind": "core_call"}, "target", "instance_key", "version", "is_async")
		if flow := config(n, "flow_name", nil); flow != nil {
			b["flow"] = flow
		}
		return b
	}
	return map[string]any{"kind": string(n.Type)}
}

// pick adds those fields of a node that it has.
func pick(n *graph.Node, b map[string]any, fields ...string) map[string]any {
	for _, field := range fields {
		if v := config(n, field, nil); v != nil {
			b[field] = v
		}
	}
	return b
}

func (c *compiler) model(n *graph.Node) map[string]any {
	b := pick(n, map[string]any{"kind": strings.TrimPrefix(string(n.Type), "llm_")},
		"goal", "llm_role", "guidance", "constraints", "context_bindings")
	if schema := config(n, "output_schema", nil); schema != nil {
		b["output_type"] = schema
	}
	if b["llm_role"] == nil {
		if role := config(n, "model", nil); role != nil {
			b["llm_role"] = role
		} else if id := c.g.Config.Identity; id != nil && len(id.Models) > 0 {
			b["llm_role"] = id.Models[0].Role
		}
	}
	if n.Type == graph.LLMGuarded {
		return pick(n, b, "guard", "validate", "on_validation_failure")
	}
	return pick(n, b, "identity_ref", "examples", "budget")
}

func loopFields(n *graph.Node) map[string]any {
	if config(n, "style", "foreach") == "while" {
		return pick(n, map[string]any{"kind": "while"}, "when", "max_iterations")
	}
	return pick(n, map[string]any{"kind": "foreach"}, "items", "var", "collect", "max_concurrent", "fail_fast")
}

// plugin is a call of a plugin. Those of mind are blocks of their own.
func plugin(n *graph.Node) map[string]any {
	alias, method := config(n, "plugin", "mind"), config(n, "method", "job")
	if alias != "mind" {
		return rigid(map[string]any{"kind": "plugin_call", "plugin": alias, "method": method, "args": config(n, "args", map[string]any{})})
	}
	b := map[string]any{"kind": "compute", "action": method}
	if slices.Contains([]any{"pause", "resume", "cancel"}, method) {
		if args, ok := n.Config["args"].(map[string]any); ok {
			b["job"] = args["job_id"]
		}
		return b
	}
	b["spec"] = config(n, "args", map[string]any{})
	return pick(n, b, "wait")
}

func (c *compiler) checkpoint(n *graph.Node) map[string]any {
	b := pick(n, map[string]any{"kind": "checkpoint"}, "type", "prompt", "options", "schema", "assignee", "priority", "on_timeout",
		"escalation_target", "context", "subject_digest", "quorum")
	if b["type"] == nil {
		b["type"] = "approval"
	}
	if n.Type == graph.HITLReview {
		b["type"] = config(n, "type", "hitl_review")
		spec := pick(n, map[string]any{}, "sections", "options", "assignee")
		scope := config(n, "scope", c.g.Config.ScaiQueue["scope"])
		b["hitl_target"] = map[string]any{"scope": scope, "queue": config(n, "queue", ""), "hitl_spec": spec}
	}
	return b
}

// bindings are the names that a block has for itself: those of the node, and those of edges of data.
func (c *compiler) bindings(n *graph.Node, b map[string]any) map[string]any {
	all := map[string]any{}
	for _, e := range c.inputs[n.ID] {
		source, ok := c.g.Node(e.Source.Node)
		if !ok {
			continue
		}
		from := c.nameOf(source)
		port, _ := n.Input(e.Target.Port)
		name := squeeze(port.Label, '_')
		if name == "" || !identifier(name) {
			name = squeeze(port.ID, '_')
		}
		kind, _ := b["kind"].(string)
		switch {
		case from == "":
			c.addEdge(e, "BAD_EDGE", "no expression can name the result of '%s': give it a result_binding", source.ID)
		case !identifier(name):
			c.addEdge(e, "BAD_EDGE", "its target port has no label that is a name: use %s instead, or give the port another label", from)
		case kind == "parallel":
			c.addEdge(e, "BAD_EDGE", "nodes of kind %s have no names of their own: use %s instead", n.Type, from)
		case all[name] != nil:
			c.addEdge(e, "BAD_EDGE", "another edge of data ends at the same port: only one of them counts")
		default:
			all[name] = from
		}
	}
	if own, ok := n.Config["input_bindings"].(map[string]any); ok {
		for name, e := range own {
			all[name] = e
		}
	}
	return all
}

// values are those of the subject of a match that a condition names: JSON, or text.
func values(condition string) []any {
	text := strings.TrimSpace(condition)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return []any{text}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return []any{text}
	}
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}
