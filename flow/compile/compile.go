package compile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/ir"
)

// notSupported is the code of findings about nodes that compile, and that this version of Mind does not run.
const notSupported = "NOT_SUPPORTED"

// Check says what is wrong with a flow: with the drawing, and with the program that it means.
func Check(content []byte) []graph.Diagnostic {
	_, found := Program(content)
	return found
}

// Deployable says whether findings let a flow be deployed. Nodes that this version does not run compile with a warning, and are
// refused here.
func Deployable(found []graph.Diagnostic) bool { return Obstacle(found) == nil }

// Obstacle returns the first finding that keeps a flow from being deployed; nil: none does.
func Obstacle(found []graph.Diagnostic) *graph.Diagnostic {
	i := slices.IndexFunc(found, func(d graph.Diagnostic) bool {
		return d.Severity == graph.SeverityError || d.Code == notSupported
	})
	if i < 0 {
		return nil
	}
	return &found[i]
}

// Program compiles a flow to the form that Cores run. The program is nil if there is an error among the findings.
func Program(content []byte) (*ir.Module, []graph.Diagnostic) {
	g, flows, found := build(content)
	if graph.Failed(found) {
		return nil, found
	}
	m, found := program(g, flows, found)
	if graph.Failed(found) {
		return nil, found
	}
	return m, found
}

// flowOf is the flow that one entry starts.
type flowOf struct {
	name  string
	entry *graph.Node
	steps []step
}

// build reads and checks a flow, and makes the steps of each of its entries.
func build(content []byte) (*graph.Graph, []flowOf, []graph.Diagnostic) {
	g, found := graph.Parse(content)
	if g == nil {
		return nil, nil, found
	}
	return structure(g, graph.Check(g))
}

// structure makes the steps of a graph in which no error was found.
func structure(g *graph.Graph, found []graph.Diagnostic) (*graph.Graph, []flowOf, []graph.Diagnostic) {
	if graph.Failed(found) {
		return g, nil, found
	}
	c := newCompiler(g, found)
	var flows []flowOf
	names := map[string]bool{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !n.Type.Entry() {
			continue
		}
		name := slug(n.Label)
		if len(flows) == 0 {
			name = slug(g.Name)
		}
		if name == "" {
			name = "main"
		}
		for base, k := name, 2; names[name]; k++ {
			name = fmt.Sprintf("%s-%d", base, k)
		}
		names[name] = true
		if !n.Type.Runs() {
			c.add(n, graph.SeverityWarning, notSupported, "this version of Mind does not start flows by %s: use an entry_api", n.Type)
		}
		flows = append(flows, flowOf{name, n, c.flow(n)})
	}
	return g, flows, c.found
}

// slug is text in lower case, with - for all that is neither a letter nor a digit.
func slug(text string) string { return squeeze(text, '-') }

// squeeze has the letters and digits of a text in lower case, and one gap for each run of others between them.
func squeeze(text string, gap byte) string {
	var out []byte
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			out = append(out, byte(r))
		case len(out) > 0 && out[len(out)-1] != gap:
			out = append(out, gap)
		}
	}
	if len(out) > 48 {
		out = out[:48]
	}
	return strings.TrimRight(string(out), string(gap))
}

// program makes the module of the steps, and checks it as every program is checked.
func program(g *graph.Graph, flows []flowOf, found []graph.Diagnostic) (*ir.Module, []graph.Diagnostic) {
	module := map[string]any{"schema_version": ir.SchemaVersion, "name": g.Name, "version": g.Version}
	if id := g.Config.Identity; id != nil {
		module["identity"] = map[string]any{"name": id.Name}
		if len(id.Models) > 0 {
			module["models"] = id.Models
		}
	}
	if plugins := plugins(g); len(plugins) > 0 {
		module["plugins"] = plugins
	}
	if len(g.Variables) > 0 {
		module["variables"] = g.Variables
	}
	var triggers, all []any
	for _, f := range flows {
		triggers = append(triggers, trigger(f))
		all = append(all, map[string]any{"name": f.name, "body": blocks(f.steps)})
	}
	module["triggers"], module["flows"] = triggers, all
	data, err := marshal(module)
	if err != nil {
		return nil, append(found, graph.Diagnostic{Severity: graph.SeverityError, Code: "SYNTAX", Message: err.Error()})
	}
	m, wrong := check.Source(data)
	return m, append(found, located(g, wrong)...)
}

// trigger is the trigger of a flow.
func trigger(f flowOf) map[string]any {
	t := map[string]any{"kind": strings.TrimPrefix(string(f.entry.Type), "entry_"), "name": f.name, "target_flow": f.name}
	if f.entry.Type == graph.EntrySchedule {
		t["cron"], t["timezone"] = config(f.entry, "cron", "0 * * * *"), config(f.entry, "timezone", "UTC")
	}
	return t
}

// located turns findings about a program into findings about the drawing.
func located(g *graph.Graph, wrong []check.Diagnostic) []graph.Diagnostic {
	var found []graph.Diagnostic
	for _, w := range wrong {
		d := graph.Diagnostic{Severity: graph.Severity(w.Severity), Code: w.Code, Message: w.Message}
		if w.Code == notSupported {
			d.Severity = graph.SeverityWarning
		}
		id := nodeOf(g, w)
		if at := slices.IndexFunc(g.Nodes, func(n graph.Node) bool { return n.ID == id }); id != "" && at >= 0 {
			d.NodeID = id
			d.Path = fmt.Sprintf("nodes[%d]", at)
			d.Message = fmt.Sprintf("node '%s': %s", id, d.Message)
		}
		found = append(found, d)
	}
	return found
}

// nodeOf is the node that a finding about a program is about. A block that cannot be read has no node, only an id.
func nodeOf(g *graph.Graph, w check.Diagnostic) string {
	for _, id := range []string{w.NodeID, w.BlockID} {
		if _, ok := g.Node(id); ok {
			return id
		}
	}
	if i := strings.LastIndex(w.BlockID, madeBy); i > 0 {
		return w.BlockID[:i]
	}
	return ""
}

// marshal is json.Marshal that writes <, > and & as they are.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return out.Bytes(), err
}

// plugins are those of the flow, and those that nodes call.
func plugins(g *graph.Graph) []any {
	var all []any
	seen := map[string]bool{}
	add := func(alias, endpoint string) {
		if alias == "" || alias == "mind" || seen[alias] {
			return
		}
		seen[alias] = true
		if endpoint == "" {
			endpoint = "plugin://" + alias
		}
		all = append(all, map[string]any{"alias": alias, "endpoint": endpoint})
	}
	for _, p := range g.Config.Plugins {
		switch p := p.(type) {
		case string:
			add(p, "")
		case map[string]any:
			alias, _ := p["alias"].(string)
			endpoint, _ := p["endpoint"].(string)
			add(alias, endpoint)
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		switch category := string(n.Type); {
		case n.Type == graph.ToolPlugin:
			alias, _ := n.Config["plugin"].(string)
			add(alias, "")
		case strings.HasPrefix(category, "queue_"):
			add("scaiqueue", "")
		case strings.HasPrefix(category, "compute_"):
			add("scaibunker", "")
		}
	}
	return all
}
