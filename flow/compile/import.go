package compile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/flow/graph"
)

// Import makes a drawing of a manifest. With scaiflow_meta.graph it is the one that was compiled, with the configs that the steps have
// now. Without it, nodes are stacked below each other; steps of an unknown form are kept in metadata.unknown_steps.
func Import(manifest []byte) ([]byte, error) {
	value, err := valueOf(manifest)
	if err != nil {
		return nil, err
	}
	root, _ := value.(map[string]any)
	core, ok := root["core"].(map[string]any)
	if !ok {
		return nil, errors.New("the manifest has no core at its root: it is no manifest of ScaiFlow")
	}
	meta, _ := core["scaiflow_meta"].(map[string]any)
	i := &importer{metas: map[string]map[string]any{}, nodes: map[string]map[string]any{}}
	flows, _ := core["flows"].([]any)
	for _, f := range flows {
		f, _ := f.(map[string]any)
		i.collect(f["trigger"])
		i.steps(f["steps"])
	}
	if i.err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", i.err)
	}
	drawn, ok := meta["graph"].(map[string]any)
	if !ok {
		drawn = i.stack(core, meta)
	} else if err := i.complete(drawn); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	drawn["id"] = orText(meta["source_id"], "")
	if drawn["version"], ok = meta["source_version"].(string); !ok {
		drawn["version"] = "0.1.0"
	}
	data, err := marshal(drawn)
	if err != nil {
		return nil, fmt.Errorf("writing the flow: %w", err)
	}
	g, found := graph.ParseLarge(data)
	if g == nil {
		return nil, fmt.Errorf("the manifest has no flow: %s", found[0].Message)
	}
	return g.Encode()
}

func orText(value any, without string) string {
	if s, ok := value.(string); ok && s != "" {
		return s
	}
	return without
}

const (
	// MaxYAML bounds a manifest, in bytes. The YAML of a drawing is several times as long.
	MaxYAML = 8 << 20
	// deepest bounds the nesting of a manifest.
	deepest = 512
)

// JSON is a document of YAML as JSON. Numbers keep their digits; aliases are refused.
func JSON(text []byte) ([]byte, error) {
	value, err := valueOf(text)
	if err != nil {
		return nil, err
	}
	data, err := marshal(value)
	if err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return data, nil
}

// valueOf reads a document of YAML.
func valueOf(text []byte) (any, error) {
	if len(text) > MaxYAML {
		return nil, fmt.Errorf("the manifest has %d bytes, and at most %d are allowed", len(text), MaxYAML)
	}
	var document yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&document); err != nil {
		return nil, fmt.Errorf("the manifest is no YAML: %w", err)
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document: a manifest is one")
	}
	value, err := fromYAML(&document, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	return value, nil
}

// fromYAML is YAML as JSON. Numbers keep their digits.
func fromYAML(n *yaml.Node, depth int) (any, error) {
	if depth > deepest {
		return nil, fmt.Errorf("line %d: it is nested more than %d deep", n.Line, deepest)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return nil, nil
		}
		return fromYAML(n.Content[0], depth+1)
	case yaml.AliasNode:
		return nil, fmt.Errorf("line %d: aliases are not read: write the value out", n.Line)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			v, err := fromYAML(e, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for k := 0; k+1 < len(n.Content); k += 2 {
			key := n.Content[k]
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a field has no name", key.Line)
			}
			if _, twice := object[key.Value]; twice {
				return nil, fmt.Errorf("line %d: the field %s is given twice", key.Line, key.Value)
			}
			v, err := fromYAML(n.Content[k+1], depth+1)
			if err != nil {
				return nil, err
			}
			object[key.Value] = v
		}
		return object, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, nil
}

func scalar(n *yaml.Node) (any, error) {
	tag := n.ShortTag()
	if (tag == "!!int" || tag == "!!float") && json.Valid([]byte(n.Value)) {
		return json.Number(n.Value), nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("line %d: %w", n.Line, err)
	}
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("line %d: %s is no number of JSON", n.Line, n.Value)
		}
		data, err := json.Marshal(v)
		return json.Number(data), err
	case int, int64, uint64:
		return json.Number(fmt.Sprint(v)), nil
	}
	return n.Value, nil // a date, which JSON has as text
}

// importer collects the nodes of a manifest.
type importer struct {
	// metas are those of the steps, by the id of the node.
	metas map[string]map[string]any
	// nodes are those that were stacked, by id; all has them in order.
	nodes   map[string]map[string]any
	all     []any
	unknown []any
	err     error
}

// collect takes the meta of a trigger or a step.
func (i *importer) collect(value any) {
	s, _ := value.(map[string]any)
	meta, ok := s["meta"].(map[string]any)
	if !ok {
		return
	}
	id, ok := meta["node_id"].(string)
	if !ok {
		return
	}
	if other, twice := i.metas[id]; twice && !reflect.DeepEqual(other, meta) && i.err == nil {
		i.err = fmt.Errorf("the node %s is in two steps that differ: change both of them", id)
	}
	i.metas[id] = meta
}

// steps takes the metas of steps and of those within them. Nothing else is looked into: an argument may look like a meta.
func (i *importer) steps(value any) {
	list, _ := value.([]any)
	for _, s := range list {
		s, _ := s.(map[string]any)
		i.collect(s)
		for _, kind := range []string{"decision", "loop", "parallel"} {
			inner, _ := s[kind].(map[string]any)
			for _, field := range []string{"else", "steps"} {
				i.steps(inner[field])
			}
			for _, field := range []string{"cases", "branches"} {
				ways, _ := inner[field].([]any)
				for _, w := range ways {
					w, _ := w.(map[string]any)
					i.steps(w["steps"])
				}
			}
		}
	}
}

// complete gives the nodes of a drawing what their steps have.
func (i *importer) complete(drawn map[string]any) error {
	nodes, _ := drawn["nodes"].([]any)
	for _, n := range nodes {
		n, _ := n.(map[string]any)
		id, _ := n["id"].(string)
		meta, ok := i.metas[id]
		if !ok {
			continue
		}
		kind, ok := meta["node_kind"].(string)
		if !ok {
			return fmt.Errorf("the step of the node %s has no node_kind", id)
		}
		n["type"], n["label"] = kind, orText(meta["node_label"], "")
		if config, ok := meta["node_config"]; ok {
			n["config"] = config
		}
	}
	return nil
}

// stack draws steps below each other, each after the one before it.
func (i *importer) stack(core, meta map[string]any) map[string]any {
	var edges []any
	ways := map[string]bool{}
	flows, _ := core["flows"].([]any)
	for _, f := range flows {
		f, _ := f.(map[string]any)
		trigger, _ := f["trigger"].(map[string]any)
		last := i.entry(trigger, orText(f["name"], "start"))
		steps, _ := f["steps"].([]any)
		for _, s := range steps {
			next, ok := i.step(s)
			if !ok {
				i.unknown = append(i.unknown, s)
				continue
			}
			if way := fmt.Sprint(last["id"], " -> ", next["id"]); !ways[way] { // two flows may share it
				ways[way] = true
				edges = append(edges, map[string]any{
					"id": fmt.Sprintf("edge_%d", len(edges)+1), "type": "sequential",
					"source": map[string]any{"node": last["id"], "port": outOf(last)}, "target": map[string]any{"node": next["id"], "port": "in"},
				})
			}
			last = next
		}
	}
	drawn := map[string]any{
		"name": orText(core["name"], "flow"), "nodes": append([]any{}, i.all...), "edges": append([]any{}, edges...), "config": imported(core, meta),
	}
	if len(i.unknown) > 0 {
		drawn["metadata"] = map[string]any{"unknown_steps": i.unknown}
	}
	return drawn
}

// imported is the config that a manifest without a drawing has.
func imported(core, meta map[string]any) map[string]any {
	config := map[string]any{}
	identity := map[string]any{}
	if persona, ok := core["identity"].(map[string]any); ok {
		identity["name"] = orText(persona["persona"], "")
	}
	models, _ := meta["models"].([]any)
	if ref, model, ok := strings.Cut(orText(core["model"], ""), "/"); ok && len(models) == 0 {
		models = []any{map[string]any{"role": "primary", "ref": ref, "model": model}}
	}
	if len(models) > 0 {
		identity["models"] = models
	}
	if len(identity) > 0 {
		config["core_identity"] = identity
	}
	for _, field := range []string{"scaiqueue", "plugins", "capabilities"} {
		if v, ok := core[field]; ok {
			config[field] = v
		}
	}
	if meta["publish_as_model"] == true {
		config["publish_as_model"] = true
	}
	return config
}

// outOf is the first output port of a node.
func outOf(n map[string]any) string {
	made := graph.Node{Type: graph.Kind(fmt.Sprint(n["type"]))}
	if ports := made.OutputPorts(); len(ports) > 0 {
		return ports[0].ID
	}
	return "out"
}

// put adds a node below those before it.
func (i *importer) put(id, kind, label string, config map[string]any) map[string]any {
	if n, ok := i.nodes[id]; ok {
		return n // two flows share it
	}
	n := map[string]any{
		"id": id, "type": kind, "label": label, "position": map[string]any{"x": json.Number("0"), "y": json.Number(fmt.Sprint(120 * len(i.all)))},
	}
	if len(config) > 0 {
		n["config"] = config
	}
	i.nodes[id] = n
	i.all = append(i.all, n)
	return n
}

// free is an id that no node has.
func (i *importer) free() string {
	for k := len(i.all) + 1; ; k++ {
		id := fmt.Sprintf("node_%d", k)
		if i.nodes[id] == nil && i.metas[id] == nil {
			return id
		}
	}
}

// fromMeta adds the node of a meta; nil: there is none.
func (i *importer) fromMeta(step map[string]any) map[string]any {
	meta, _ := step["meta"].(map[string]any)
	kind := orText(meta["node_kind"], "")
	if kind == "" || !graph.Kind(kind).Known() {
		return nil
	}
	config, _ := meta["node_config"].(map[string]any)
	return i.put(orText(meta["node_id"], i.free()), kind, orText(meta["node_label"], kind), config)
}

func (i *importer) entry(trigger map[string]any, label string) map[string]any {
	if n := i.fromMeta(trigger); n != nil {
		return n
	}
	kind := graph.EntryAPI
	if k := graph.Kind("entry_" + orText(trigger["type"], "api")); k.Known() {
		kind = k
	}
	config := map[string]any{}
	for _, field := range []string{"method", "path", "cron", "timezone"} {
		if v, ok := trigger[field]; ok {
			config[field] = v
		}
	}
	return i.put(i.free(), string(kind), label, config)
}

// step adds the node of a step of a form that was published. Branches and loops need the drawing, so they are unknown here.
func (i *importer) step(value any) (map[string]any, bool) {
	s, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	if s["decision"] != nil || s["loop"] != nil || s["parallel"] != nil {
		return nil, false
	}
	if n := i.fromMeta(s); n != nil {
		return n, true
	}
	id := i.free()
	if goal, ok := s["llm_turn"].(string); ok {
		kind, config := graph.LLMFlexible, map[string]any{"goal": goal}
		if s["guarded"] == true {
			kind = graph.LLMGuarded
			if s["guard"] != nil {
				config["guard"] = s["guard"]
			}
		}
		return i.put(id, string(kind), "LLM turn", config), true
	}
	if call, ok := s["plugin_call"].(map[string]any); ok {
		config := map[string]any{"plugin": orText(call["alias"], "mind"), "method": orText(call["method"], "job")}
		if call["args"] != nil {
			config["args"] = call["args"]
		}
		return i.put(id, string(graph.ToolPlugin), config["plugin"].(string)+"."+config["method"].(string), config), true
	}
	if ask, ok := s["checkpoint"].(map[string]any); ok {
		kind := graph.Checkpoint
		if ask["queue"] != nil {
			kind = graph.HITLReview
		}
		return i.put(id, string(kind), "Checkpoint", maps.Clone(ask)), true
	}
	return nil, false
}
