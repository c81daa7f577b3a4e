package compile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/mindcoordinator/mind/flow/graph"
)

type m = map[string]any

// flow is a drawing in a few words: nodes as "id kind" with their configs, and edges as "a -> b", "a -[x > 1]-> b" and "a.out_1 -> b".
type flow struct {
	nodes []m
	edges []m
	rest  m
}

// draw begins a drawing with the entry start.
func draw() *flow {
	f := &flow{rest: m{"id": "flow_1", "name": "Demo flow", "version": "1.2.3", "scaicore_target": "0.2"}}
	return f.node("start", graph.EntryAPI, nil)
}

func (f *flow) node(id string, kind graph.Kind, config m) *flow {
	n := m{"id": id, "type": kind, "label": strings.ToUpper(id[:1]) + id[1:], "position": m{"x": 200 * len(f.nodes), "y": 0}}
	if config != nil {
		n["config"] = config
	}
	f.nodes = append(f.nodes, n)
	return f
}

// set changes the node that was drawn last.
func (f *flow) set(field string, value any) *flow { f.nodes[len(f.nodes)-1][field] = value; return f }

// with sets a field of the whole.
func (f *flow) with(field string, value any) *flow { f.rest[field] = value; return f }

// text adds nodes that fill a text each.
func (f *flow) text(ids ...string) *flow {
	for _, id := range ids {
		f.node(id, graph.LLMRigid, m{"template": "text of " + id})
	}
	return f
}

// edge adds edges, each written as "a -> b", "a -[condition]-> b", "a =data=> b.port" or "a.port -> b".
func (f *flow) edge(all ...string) *flow {
	for _, text := range all {
		e := m{"id": fmt.Sprintf("e%d", len(f.edges)+1), "type": "sequential"}
		from, to, ok := strings.Cut(text, " -> ")
		if !ok {
			if from, to, ok = strings.Cut(text, " =data=> "); ok {
				e["type"] = "data"
			} else {
				var rest string
				from, rest, _ = strings.Cut(text, " -[")
				var condition string
				condition, to, _ = strings.Cut(rest, "]-> ")
				e["type"], e["condition"] = "conditional", condition
			}
		}
		e["source"], e["target"] = f.end(from, true), f.end(to, false)
		f.edges = append(f.edges, e)
	}
	return f
}

func (f *flow) end(text string, source bool) m {
	id, port, ok := strings.Cut(text, ".")
	if !ok {
		port = "in"
		if source {
			port = "out"
			for _, n := range f.nodes {
				made := graph.Node{Type: n["type"].(graph.Kind)}
				if n["id"] == id && len(made.OutputPorts()) > 0 {
					port = made.OutputPorts()[0].ID
				}
			}
		}
	}
	return m{"node": id, "port": port}
}

func (f *flow) json() []byte {
	whole := maps.Clone(f.rest)
	whole["nodes"], whole["edges"] = append([]m{}, f.nodes...), append([]m{}, f.edges...)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(whole); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(out.Bytes())
}

// sample is a value that a field may have, and wrong is one that it may not.
func sample(f graph.Field) any {
	switch f.Type {
	case graph.Expression:
		return "input.x > 1"
	case graph.Template:
		return "text with {{input.x}}"
	case graph.Name:
		return "some_name"
	case graph.Int:
		return max(f.Min, 1)
	case graph.Bool:
		return true
	case graph.Duration:
		return "90s"
	case graph.Choice:
		return f.Choices[len(f.Choices)-1]
	case graph.List:
		return []any{"one", "two"}
	case graph.Map:
		return m{"field": "string"}
	case graph.Bindings:
		return m{"x": "input.x"}
	}
	return samples[f.Name]
}

// samples are for the fields that mean more than their type.
var samples = m{
	"goal": "Answer", "cron": "0 3 * * *", "timezone": "Europe/Vienna", "path": "/in", "auth": nil, "guidance": "be short",
	"constraints": m{"never": []any{"lie"}}, "context_bindings": m{"doc": "{{input.doc}}"}, "on_validation_failure": "fail",
	"budget": m{"max_retries": 2}, "retry": m{"max": 3, "backoff": "10s"}, "on_failure": []any{m{"action": "fail"}},
	"plugin": "scaidrive", "method": "read", "args": m{"file": "{{input.file}}"}, "body": m{"x": "{{input.x}}"},
	"on_timeout": "continue", "escalation_target": "user:boss", "context": m{"loss": "{{input.loss}}"}, "quorum": m{"needed": 2, "of": 3},
	"scope": "support", "queue": "reviews", "message_type": "case", "payload": m{"id": "{{input.id}}"}, "image": "python-3.12",
	"network_profile": "registry", "target": "core://default/other", "flow_name": "main", "version": "3", "type": "choice",
}

func wrong(f graph.Field) any {
	switch f.Type {
	case graph.Expression:
		return "input.x >"
	case graph.Template, graph.Any:
		return "text with {{input.}}"
	case graph.Name:
		return "not a name"
	case graph.Choice:
		return "neither"
	case graph.Duration:
		return "soon"
	case graph.Bindings:
		return m{"x y": "1"}
	case graph.Bool:
		return "yes"
	}
	return true
}
