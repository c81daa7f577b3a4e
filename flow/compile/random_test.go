package compile_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
)

// artist draws random flows that compile.
type artist struct {
	*rand.Rand
	*flow
	kinds []graph.Spec
}

func newArtist(seed uint64) *artist {
	a := &artist{Rand: rand.New(rand.NewPCG(seed, 34)), flow: draw()}
	for _, spec := range graph.Kinds() {
		switch spec.Kind {
		case graph.EntryAPI, graph.EntryWebhook, graph.EntrySchedule, graph.LogicDecision, graph.LogicLoop, graph.LogicParallel:
		default:
			a.kinds = append(a.kinds, spec)
		}
	}
	return a
}

// name is a new id.
func (a *artist) name() string { return fmt.Sprintf("node_%d", len(a.nodes)) }

// words are texts that YAML and JSON write in ways of their own.
var words = []string{
	"plain", "yes", "null", "1.0", "0x1F", "- x", "a: b", "# no comment", "{{input.x}}", "tab\tline\nend\n", " blank ", "ö€𝄞", "\u2028", "'", `"`, "", "2027-01-31", "~", "<<", "&a", "*a", "\x00\x1b",
}

// value is any JSON.
func (a *artist) value(depth int) any {
	switch a.IntN(8) {
	case 0:
		return a.IntN(1000) - 500
	case 1:
		return json.Number([]string{"1.50", "1e5", "-0.25", "12345678901234567890", "0.1e-7"}[a.IntN(5)])
	case 2:
		return a.IntN(2) == 0
	case 3:
		return nil
	case 4:
		if depth > 0 {
			return []any{a.value(depth - 1), a.value(depth - 1)}
		}
	case 5:
		if depth > 0 {
			return m{words[a.IntN(len(words))]: a.value(depth - 1), "k": a.value(depth - 1)}
		}
	}
	return words[a.IntN(len(words))]
}

// plainNode draws a node of any kind that has one way in and one out.
func (a *artist) plainNode() string {
	spec := a.kinds[a.IntN(len(a.kinds))]
	id := a.name()
	config := m{}
	for _, f := range spec.Fields {
		if f.Required || a.IntN(4) == 0 {
			config[f.Name] = sample(f)
		}
		if f.Type == graph.Any && f.Required == false && f.Name == "payload" {
			config[f.Name] = a.value(3)
		}
	}
	delete(config, "schema")
	delete(config, "on_timeout")
	if config["llm_role"] != nil {
		config["llm_role"] = "primary"
	}
	config["result_binding"] = "r_" + id
	if a.IntN(3) == 0 {
		delete(config, "result_binding")
	}
	if spec.Kind == graph.SubflowCall {
		config["flow_name"] = "demo-flow"
	}
	a.node(id, spec.Kind, config).set("label", words[a.IntN(len(words))])
	a.set("position", m{"x": a.IntN(4000) - 2000, "y": json.Number("12.5")})
	if a.IntN(5) == 0 {
		a.set("breakpoint", true)
	}
	return id
}

// part draws a part with one way in, and returns where it begins, and the ends that have to be connected with what follows.
func (a *artist) part(depth int, inLoop bool) (first string, ends []string) {
	shape := a.IntN(8)
	if depth == 0 {
		shape = 7
	}
	switch shape {
	case 0, 1:
		id := a.name()
		config := m{}
		conditions := []string{"input.x > 1", "input.y", "else"}
		if shape == 1 {
			config = m{"style": "match", "subject": "input.x"}
			conditions = []string{"approve", `["a", 2, null]`, "else"}
		}
		a.node(id, graph.LogicDecision, config)
		for _, condition := range conditions[:1+a.IntN(3)] {
			begins, more := a.line(depth-1, inLoop)
			a.edge(fmt.Sprintf("%s -[%s]-> %s", id, condition, begins))
			if inLoop || a.IntN(4) > 0 { // otherwise the branch ends the flow
				ends = append(ends, more...)
			}
		}
		return id, ends
	case 2:
		id := a.name()
		a.node(id, graph.LogicParallel, m{"join": "all"}).set("outputs", []m{{"id": "p1", "label": "left"}, {"id": "p2"}})
		for _, port := range []string{"p1", "p2"} {
			begins, more := a.line(depth-1, true)
			a.edge(fmt.Sprintf("%s.%s -> %s", id, port, begins))
			ends = append(ends, more...)
		}
		return id, ends
	case 3:
		id := a.name()
		a.node(id, graph.LogicLoop, m{"items": "input.items"})
		begins, more := a.line(depth-1, true)
		a.edge(fmt.Sprintf("%s.out_body -> %s", id, begins))
		for _, end := range more {
			a.edge(end + " -> " + id)
		}
		return id, []string{id + ".out_done"}
	}
	id := a.plainNode()
	return id, []string{id}
}

// line draws parts one after the other.
func (a *artist) line(depth int, inLoop bool) (first string, ends []string) {
	for range 1 + a.IntN(3) {
		begins, more := a.part(depth, inLoop)
		if first == "" {
			first = begins
		}
		for _, end := range ends {
			a.edge(end + " -> " + begins)
		}
		if ends = more; len(ends) == 0 {
			break
		}
	}
	return first, ends
}

func random(seed uint64) []byte {
	a := newArtist(seed)
	begins, _ := a.line(2, false)
	a.edge("start -> " + begins)
	if a.IntN(3) == 0 {
		a.node(a.name(), graph.EntrySchedule, m{"cron": "0 3 * * *"}).edge(fmt.Sprintf("%s -> %s", a.nodes[len(a.nodes)-1]["id"], begins))
	}
	if a.IntN(3) == 0 {
		a.plainNode() // it never runs
	}
	a.with("metadata", m{"author": words[a.IntN(len(words))]}).with("tests", []any{m{"name": "t", "input": a.value(3)}})
	a.with("variables", []m{{"name": "limit", "default": a.value(2)}})
	a.with("config", m{
		"core_identity":    m{"name": "Ada", "models": []m{{"role": "primary", "model": "m1"}}},
		"scaiqueue":        m{"scope": words[a.IntN(len(words))], "queues": []any{a.value(2)}},
		"publish_as_model": a.IntN(2) == 0,
	})
	return a.json()
}

// drawings is how many flows TestImport_losesNothing draws. 10,000 take a minute.
var drawings = flag.Uint64("drawings", 500, "how many random flows are drawn")

// TestImport_losesNothing draws random flows: each compiles, its YAML is the same each time, the flow that is made of the YAML
// is the one that was drawn, and means the same program.
func TestImport_losesNothing(t *testing.T) {
	nodes := 0
	for seed := range *drawings {
		content := random(seed)
		g, found := graph.Parse(content)
		require.Empty(t, found)
		nodes += len(g.Nodes)
		want, err := g.Encode()
		require.NoError(t, err)
		manifest, found := compile.Manifest(content)
		require.False(t, graph.Failed(found), "%s\n%v", content, found)
		again, err := compile.Import(manifest)
		require.NoError(t, err, "%s", manifest)
		require.Equal(t, string(want), string(again), "seed %d", seed)
		if seed%20 == 0 {
			second, _ := compile.Manifest(again)
			require.Equal(t, string(manifest), string(second))
			one, _ := compile.Program(content)
			other, _ := compile.Program(again)
			require.Equal(t, one, other)
		}
	}
	require.Greater(t, nodes, int(*drawings)*5, "the drawings are not trivial")
}
