package compile_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
)

// published is a manifest as its documents show them, without a drawing.
const published = `
core:
  name: ticket-triage
  mode: stateless
  runtime_version: "0.2"
  identity: {provider: scaikey, persona: "Ticket triage"}
  model: scaigrid/acme/m1
  surprise: ignored
  flows:
    - name: ticket-triage
      trigger: {type: api, path: /triage}
      steps:
        - llm_turn: "Pick a team"
          meta: {node_id: node_cls, node_kind: llm_flexible, node_label: Triage, node_config: {goal: "Pick a team", llm_role: primary}}
        - llm_turn: "Answer"
          guarded: true
          guard: confidence > 0.7
        - plugin_call: {alias: scaidrive, method: read, args: {file: x}}
        - checkpoint: {type: hitl_review, queue: reviews}
        - checkpoint: {type: approval, prompt: "Ok?"}
        - teleport: {to: mars}
        - decision: {cases: []}
  scaiflow_meta: {source_id: flow_demo1, source_version: 1.0.0}
`

func TestImport_ofWhatWasPublished(t *testing.T) {
	content, err := compile.Import([]byte(published))
	require.NoError(t, err)
	g, found := graph.Parse(content)
	require.Empty(t, found)
	require.Equal(t, "flow_demo1", g.ID)
	require.Equal(t, "1.0.0", g.Version)
	var kinds, at []string
	for _, n := range g.Nodes {
		kinds = append(kinds, string(n.Type))
		at = append(at, string(n.Position.Y))
	}
	require.Equal(t, []string{"entry_api", "llm_flexible", "llm_guarded", "tool_plugin", "hitl_review", "checkpoint"}, kinds)
	require.Equal(t, []string{"0", "120", "240", "360", "480", "600"}, at)
	require.Len(t, g.Edges, 5)
	require.Equal(t, "node_cls", g.Nodes[1].ID)
	require.Equal(t, "acme/m1", g.Config.Identity.Models[0].Model)
	unknown, err := json.Marshal(g.Metadata["unknown_steps"])
	require.NoError(t, err)
	require.JSONEq(t, `[{"teleport":{"to":"mars"}},{"decision":{"cases":[]}}]`, string(unknown))
}

// A config that was changed in the YAML counts, not the one that was drawn.
func TestImport_takesTheConfigOfTheStep(t *testing.T) {
	manifest, found := compile.Manifest(draw().text("a").edge("start -> a").json())
	require.Empty(t, found)
	changed := strings.Replace(string(manifest), "        node_config:\n              template: text of a", "        node_config:\n              template: another text", 1)
	require.NotEqual(t, string(manifest), changed)
	content, err := compile.Import([]byte(changed))
	require.NoError(t, err)
	g, _ := graph.Parse(content)
	require.Equal(t, "another text", g.Nodes[1].Config["template"])
}

func TestImport_refuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                   "the manifest is no YAML",
		"flows: []":              "has no core at its root",
		"core: 5":                "has no core at its root",
		"core: {a: &x 1, b: *x}": "aliases are not read",
		"core: {a: 1, a: 2}":     "given twice",
		"core: {x: .nan}":        "no number of JSON",
		"core: " + strings.Repeat("[", 600) + strings.Repeat("]", 600): "nested more than",
		"core: {scaiflow_meta: {graph: {nodes: 5}}}":                   "nodes may not be a number",
	} {
		_, err := compile.Import([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// An argument that looks like the meta of a step is none.
func TestImport_looksAtStepsAlone(t *testing.T) {
	f := draw().text("a").node("b", graph.ToolPlugin, m{"plugin": "crm", "method": "put", "args": m{"meta": m{"node_id": "a"}}}).edge("start -> a", "a -> b")
	manifest, _ := compile.Manifest(f.json())
	content, err := compile.Import(manifest)
	require.NoError(t, err)
	g, _ := graph.Parse(content)
	require.Equal(t, graph.LLMRigid, g.Nodes[1].Type)
}

// A node of two flows is in the YAML twice. A change of one of them is refused.
func TestImport_nodesOfTwoFlows(t *testing.T) {
	manifest, _ := compile.Manifest(draw().node("other", graph.EntryAPI, nil).text("a", "b").edge("start -> a", "other -> a", "a -> b").json())
	changed := strings.Replace(string(manifest), "template: text of a\n", "template: EDITED\n", 2) // the step and its meta
	_, err := compile.Import([]byte(changed))
	require.ErrorContains(t, err, "the node a is in two steps that differ")

	at := strings.Index(string(manifest), "    graph:\n")
	content, err := compile.Import(manifest[:at])
	require.NoError(t, err)
	found := compile.Check(content)
	require.Empty(t, found, "%s", content)
}

// Ids that are made do not meet those that are there.
func TestImport_makesFreeIds(t *testing.T) {
	content, err := compile.Import([]byte(`
core:
  name: x
  flows:
    - name: x
      trigger: {type: api}
      steps:
        - {template: one, meta: {node_id: node_3, node_kind: llm_rigid, node_label: One, node_config: {template: one}}}
        - {checkpoint: {prompt: "ok?"}}
`))
	require.NoError(t, err)
	require.False(t, graph.Failed(compile.Check(content)), "%s", content)
}

// The size and the depth that a flow may have, its YAML may have, too.
func TestImport_atTheBounds(t *testing.T) {
	for name, f := range map[string]*flow{
		"many <":           draw().with("tests", []any{strings.Repeat("<", 90_000)}),
		"deep":             draw().with("metadata", m{"x": json.RawMessage(strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60))}),
		"a tab and a line": draw().with("metadata", m{"\ta\nb": "\ta\nb"}),
		"no version":       draw().with("version", ""),
		"no latin name":    draw().with("name", "発注"),
	} {
		t.Run(name, func(t *testing.T) {
			content := f.text("a").edge("start -> a").json()
			g, _ := graph.Parse(content)
			want, err := g.Encode()
			require.NoError(t, err)
			manifest, found := compile.Manifest(content)
			require.False(t, graph.Failed(found), "%v", found)
			again, err := compile.Import(manifest)
			require.NoError(t, err)
			require.Equal(t, string(want), string(again))
			require.NotContains(t, string(manifest), `name: ""`)
		})
	}
	found := compile.Check(draw().with("metadata", m{"x": json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))}).json())
	require.Contains(t, found[0].Message, "nested more than 64 deep")
}

// The work for a hostile drawing is bounded: each of these took seconds or gigabytes once.
func TestProgram_hostile(t *testing.T) {
	entries := draw()
	for i := range 1_000 {
		entries.node(fmt.Sprint("s", i), graph.EntryAPI, nil)
	}
	require.Contains(t, codesOf(entries), "BAD_LIMIT ")

	nested, last := draw(), "start"
	for i := range 200 {
		d, a, z := fmt.Sprint("d", i), fmt.Sprint("a", i), fmt.Sprint("z", i)
		nested.node(d, graph.LogicDecision, nil).text(a, z).edge(last+" -> "+d, d+" -[else]-> "+a, a+" -> "+z)
		if last != "start" {
			nested.edge(z + " -> z" + fmt.Sprint(i-1))
		}
		last = d
		nested.edges[len(nested.edges)-1]["id"] = fmt.Sprint("last", i)
	}
	require.NotEmpty(t, codesOf(nested))

	long, last := draw(), "start"
	for i := range 2_100 {
		id := fmt.Sprint("n", i)
		long.node(id, graph.LLMRigid, m{"template": "t"}).edge(last + " -> " + id)
		last = id
	}
	require.Contains(t, strings.Join(codesOf(long), "\n"), "TOO_MANY_BLOCKS")
}

func TestProgram_bounds(t *testing.T) {
	many := draw()
	for i := range 250 {
		many.node(fmt.Sprintf("n%d", i), "nothing", nil)
	}
	found := compile.Check(many.json())
	require.Less(t, len(found), 210)
	require.Equal(t, "MORE", found[len(found)-1].Code)

	found = compile.Check([]byte(`{"name": "` + strings.Repeat("x", 600<<10) + `"}`))
	require.Contains(t, found[0].Message, "at most 524288 are allowed")
}

// A flow that this version does not run compiles, and cannot be deployed.
func TestDeployable(t *testing.T) {
	require.True(t, compile.Deployable(compile.Check(draw().text("a").edge("start -> a").json())))
	model := draw().with("config", m{"core_identity": m{"models": []m{{"role": "primary", "model": "m"}}}}).
		node("a", graph.LLMFlexible, m{"goal": "g"}).edge("start -> a").json()
	program, found := compile.Program(model)
	require.NotNil(t, program)
	require.False(t, graph.Failed(found))
	require.False(t, compile.Deployable(found))
}

// FuzzImport looks for manifests that are read without an error, and make a drawing that is none.
func FuzzImport(f *testing.F) {
	f.Add([]byte(published))
	for seed := range uint64(5) {
		manifest, _ := compile.Manifest(random(seed))
		f.Add(manifest)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		content, err := compile.Import(text)
		if err != nil {
			return
		}
		g, found := graph.Parse(content)
		require.NotNil(t, g, "%v", found)
		compile.Check(content)
	})
}

// FuzzProgram looks for flows that break the compiler, and for programs that cannot be read again.
func FuzzProgram(f *testing.F) {
	f.Add(large())
	for _, c := range append(structures(), findings()...) {
		f.Add(c.flow)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		program, found := compile.Program(content)
		require.Equal(t, graph.Failed(found), program == nil)
		compile.Manifest(content)
	})
}
