package compile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/flow/graph"
)

// Manifest compiles a flow to the YAML that ScaiFlow deploys. It is nil if there is an error among the findings.
//
// Nothing is lost: each step has the node that it came from in its meta, and scaiflow_meta.graph has all that is drawn.
func Manifest(content []byte) ([]byte, []graph.Diagnostic) {
	g, flows, found := build(content)
	if graph.Failed(found) {
		return nil, found
	}
	if _, found = program(g, flows, found); graph.Failed(found) {
		return nil, found
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(manifest(g, flows))
	if err == nil {
		err = encoder.Close()
	}
	if err != nil {
		return nil, append(found, graph.Diagnostic{Severity: graph.SeverityError, Code: "SYNTAX", Message: fmt.Sprintf("writing the YAML: %v", err)})
	}
	return out.Bytes(), found
}

// object is a mapping whose fields keep their order.
func object(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i < len(pairs); i += 2 {
		if value := node(pairs[i+1]); value != nil {
			n.Content = append(n.Content, text(pairs[i].(string)), value)
		}
	}
	return n
}

// text is a text. One with tabs and lines is quoted: the library writes some of them so that it cannot read them again.
func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.Contains(s, "\t") && strings.Contains(s, "\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// node is any JSON as YAML. Numbers keep their digits, and fields are sorted. A Go nil is left out.
func node(value any) *yaml.Node {
	switch v := value.(type) {
	case nil:
		return nil
	case *yaml.Node:
		return v
	case []*yaml.Node:
		return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: v}
	}
	return jsonNode(value)
}

func jsonNode(value any) *yaml.Node {
	switch v := value.(type) {
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case string:
		return text(v)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(string(v), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: string(v)}
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, e := range v {
			n.Content = append(n.Content, jsonNode(e))
		}
		return n
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, text(k), jsonNode(v[k]))
		}
		return n
	}
	return jsonNode(plain(value))
}

// plain is a Go value as JSON has it.
func plain(value any) any {
	data, err := marshal(value)
	if err != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil
	}
	return v
}

// some is a value, or nil if it is empty.
func some(value any) any {
	switch v := plain(value).(type) {
	case string:
		if v == "" {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
	case nil:
		return nil
	}
	return value
}

func manifest(g *graph.Graph, flows []flowOf) *yaml.Node {
	persona := g.Name
	var models []graph.Model
	if id := g.Config.Identity; id != nil {
		models = id.Models
		if id.Name != "" {
			persona = id.Name
		}
	}
	var model any
	if len(models) > 0 {
		ref := models[0].Ref
		if ref == "" {
			ref = "scaigrid"
		}
		model = ref + "/" + models[0].Model
	}
	var all []*yaml.Node
	inSteps := map[string]bool{}
	for _, f := range flows {
		inSteps[f.entry.ID] = true
		// The entry is the trigger, and not a step.
		all = append(all, object("name", f.name, "trigger", triggerNode(f.entry), "steps", stepNodes(f.steps[1:], inSteps)))
	}
	target := g.ScaicoreTgt
	if target == "" {
		target = graph.Target
	}
	name := slug(g.Name)
	if name == "" {
		name = "main"
	}
	return object("core", object(
		"name", name,
		"mode", "stateless",
		"runtime_version", graph.Target,
		"identity", object("provider", "scaikey", "persona", persona),
		"model", model,
		"plugins", some(plugins(g)),
		"capabilities", some(capabilities(g)),
		"scaiqueue", some(g.Config.ScaiQueue),
		"flows", all,
		"scaiflow_meta", object(
			"source_id", g.ID,
			"source_version", g.Version,
			"scaicore_target", target,
			"models", jsonNode(append([]graph.Model{}, models...)),
			"publish_as_model", g.Config.PublishAsModel,
			"model_visibility_group_ids", jsonNode(append([]string{}, g.Config.ModelVisibilityGroup...)),
			"graph", drawing(g, inSteps),
		),
	))
}

// capabilities are those of the flow, and the bunker that nodes need.
func capabilities(g *graph.Graph) []any {
	all := slices.Clone(g.Config.Capabilities)
	bunker := g.Config.Bunker
	if bunker == nil && slices.ContainsFunc(g.Nodes, func(n graph.Node) bool { return strings.HasPrefix(string(n.Type), "compute_") }) {
		bunker = map[string]any{"lifecycle": "ephemeral", "image": "python-3.12"}
	}
	if bunker != nil {
		all = append(all, map[string]any{"bunker": bunker})
	}
	return all
}

// drawing is the graph without what the steps have already.
func drawing(g *graph.Graph, inSteps map[string]bool) any {
	whole, _ := plain(g).(map[string]any)
	for _, field := range []string{"id", "version"} {
		delete(whole, field)
	}
	nodes, _ := whole["nodes"].([]any)
	for _, n := range nodes {
		if n, ok := n.(map[string]any); ok && inSteps[fmt.Sprint(n["id"])] {
			for _, field := range []string{"type", "label", "config"} {
				delete(n, field)
			}
		}
	}
	return jsonNode(whole)
}

// meta is the node that a step came from.
func meta(n *graph.Node) *yaml.Node {
	return object("node_id", n.ID, "node_kind", string(n.Type), "node_label", n.Label, "node_config", some(n.Config))
}

func triggerNode(n *graph.Node) *yaml.Node {
	t := object("type", strings.TrimPrefix(string(n.Type), "entry_"))
	for _, field := range []string{"method", "path", "cron", "timezone"} {
		if v := config(n, field, nil); v != nil {
			t.Content = append(t.Content, text(field), jsonNode(v))
		}
	}
	t.Content = append(t.Content, text("meta"), meta(n))
	return t
}

// stepNodes are steps as YAML. Steps that the compiler added, such as that of a breakpoint, come from the node again.
func stepNodes(steps []step, inSteps map[string]bool) []*yaml.Node {
	all := []*yaml.Node{}
	for i := range steps {
		s := &steps[i]
		switch {
		case s.added && s.fields["type"] == "debug_breakpoint":
			continue
		case s.added && s.fields["kind"] == "rigid":
			all = append(all, object("return", s.node.ID))
			continue
		}
		made := s.form(inSteps)
		if !s.added {
			inSteps[s.node.ID] = true
			made.Content = append(made.Content, text("meta"), meta(s.node))
		}
		all = append(all, made)
	}
	return all
}

// form is the step in the form of its kind, without its meta.
func (s *step) form(inSteps map[string]bool) *yaml.Node {
	n, b := s.node, s.fields
	switch b["kind"] {
	case "if", "match":
		var cases []*yaml.Node
		for _, w := range s.cases {
			cases = append(cases, object("when", w.edge.Condition, "steps", stepNodes(w.steps, inSteps)))
		}
		d := object("style", b["kind"], "subject", b["subject"], "cases", cases)
		if s.fallback != nil {
			d.Content = append(d.Content, text("else"), node(stepNodes(s.fallback.steps, inSteps)))
		}
		return object("decision", d)
	case "foreach", "while":
		d := object("style", b["kind"], "items", b["items"], "when", b["when"], "max_iterations", b["max_iterations"])
		d.Content = append(d.Content, text("steps"), node(stepNodes(s.body, inSteps)))
		return object("loop", d)
	case "parallel":
		var branches []*yaml.Node
		for _, w := range s.branches {
			branches = append(branches, object("name", w.name, "steps", stepNodes(w.steps, inSteps)))
		}
		return object("parallel", object("branches", branches))
	}
	switch n.Type {
	case graph.LLMFlexible:
		return object("llm_turn", config(n, "goal", ""))
	case graph.LLMGuarded:
		return object("llm_turn", config(n, "goal", ""), "guarded", true, "guard", config(n, "guard", nil))
	case graph.LLMRigid:
		return object("template", config(n, "template", ""))
	case graph.DataVariableSet:
		return object("assign", object("name", config(n, "name", ""), "value", config(n, "value", "")))
	case graph.ToolHTTP:
		return object("http_call", object("method", config(n, "method", "GET"), "url", config(n, "url", "")))
	case graph.Checkpoint, graph.HITLDecision, graph.HITLReview:
		return object("checkpoint", object("type", b["type"], "scope", config(n, "scope", nil), "queue", config(n, "queue", nil)))
	case graph.SubflowCall:
		return object("core_call", object("target", config(n, "target", ""), "flow", config(n, "flow_name", nil)))
	case graph.ToolPlugin:
		return object("plugin_call", object("alias", config(n, "plugin", "mind"), "method", config(n, "method", "job"), "args", config(n, "args", nil)))
	}
	statement, _ := b["statements"].([]any)[0].(map[string]any)
	return object("plugin_call", object("alias", statement["plugin"], "method", statement["method"], "args", some(statement["args"])))
}
