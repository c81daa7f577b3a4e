package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// ran compiles a flow and runs it. It returns the nodes that ran, in order, and the output.
func ran(t *testing.T, f *flow, input any) (nodes string, output any) {
	t.Helper()
	m, found := compile.Program(f.json())
	require.NotNil(t, m, "%v", found)
	answers, err := rehearse.ParseAnswers([]byte(`{}`))
	require.NoError(t, err)
	outcome, err := rehearse.Flow(m, rehearse.Options{Input: input, Answers: answers})
	require.NoError(t, err)
	require.Equal(t, "completed", outcome.Status, "%v", outcome.Error)
	var all []string
	for _, s := range outcome.Steps {
		if !strings.Contains(s.Step, "__") {
			all = append(all, s.Step)
		}
	}
	return strings.Join(all, " "), outcome.Output
}

func decision(f *flow, ids ...string) *flow {
	for _, id := range ids {
		f.node(id, graph.LogicDecision, nil)
	}
	return f
}

// branching is a decision whose first branch is drawn by the test, while the others meet at z.
func branching() *flow {
	return decision(draw(), "d").text("b", "c", "z").edge("start -> d", "d -[input.x == 2]-> b", "d -[else]-> c", "b -> z", "c -> z")
}

// A branch that nothing leads on ends the flow, whatever it ends with.
func TestRuns_endsWhereTheDrawingEnds(t *testing.T) {
	one := map[string]any{"x": int64(1), "q": true}
	none := map[string]any{"x": int64(1), "q": false}
	first := func(f *flow, to string) *flow {
		f.edge("d -[input.x == 1]-> " + to)
		// Conditions are tried in order, so the one of the test is put first.
		f.edges[0], f.edges[len(f.edges)-1] = f.edges[len(f.edges)-1], f.edges[0]
		return f
	}
	for name, c := range map[string]struct {
		flow  *flow
		input any
		nodes string
	}{
		"a node": {first(branching().text("g"), "g"), one, "start d g"},
		"a decision": {
			first(decision(branching().text("g", "h"), "e").edge("e -[input.q]-> g", "e -[else]-> h"), "e"), one, "start d e g",
		},
		"a decision without a default": {
			first(decision(branching().text("g"), "e").edge("e -[input.q]-> g"), "e"), none, "start d e",
		},
		"a parallel": {
			first(branching().node("p", graph.LogicParallel, nil).text("g", "f").edge("p.out_1 -> g", "p.out_2 -> f"), "p"), one, "start d p g f",
		},
		"a parallel with a decision": {
			first(decision(branching().node("p", graph.LogicParallel, nil).text("g", "h", "f"), "e").
				edge("p.out_1 -> e", "p.out_2 -> f", "e -[input.q]-> g", "e -[else]-> h"), "p"), one, "start d p e g f",
		},
		"a parallel with conditions behind a node": {
			first(branching().node("p", graph.LogicParallel, nil).text("e", "g", "h", "f").
				edge("p.out_1 -> e", "p.out_2 -> f", "e -[input.q]-> g", "e -[else]-> h"), "p"), one, "start d p e f g",
		},
		"a parallel, one branch of which leads on": {
			first(branching().node("p", graph.LogicParallel, nil).text("g", "f").edge("p.out_1 -> g", "p.out_2 -> f", "g -> z"), "p"), one, "start d p g f z",
		},
		"a decision, one branch of which leads on": {
			first(decision(branching().text("g", "h"), "e").edge("e -[input.q]-> g", "e -[else]-> h", "g -> z"), "e"), none, "start d e h",
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, _ := ran(t, c.flow, c.input)
			require.ElementsMatch(t, strings.Fields(c.nodes), strings.Fields(nodes))
		})
	}
}

// The result of the last node is that of the flow, also if no expression can name the node.
func TestRuns_resultOfAnEnd(t *testing.T) {
	for name, f := range map[string]*flow{
		"no identifier": draw().text("n-1").set("label", "Notify").text("n-2").set("label", "Notify"),
		"assigns":       draw().node("n-1", graph.DataVariableSet, m{"name": "v", "value": "'text of n-1'"}).text("n-2"),
	} {
		t.Run(name, func(t *testing.T) {
			decision(f, "d").text("b", "z").edge("start -> d", "d -[input.x == 1]-> n-1", "d -[input.x == 2]-> b", "d -[else]-> n-2", "b -> z", "n-2 -> z")
			_, output := ran(t, f, map[string]any{"x": int64(1)})
			require.Equal(t, "text of n-1", output)
		})
	}
}

// A name means one thing: a label binds nothing if something else has its name.
func TestRuns_labelsComeLast(t *testing.T) {
	loop := draw().node("l", graph.LogicLoop, m{"items": "input.items"}).text("a").set("label", "Item").
		node("b", graph.LLMRigid, m{"template": "{{item}}"}).edge("start -> l", "l.out_body -> a", "a -> b", "b -> l")
	_, output := ran(t, loop, map[string]any{"items": []any{int64(1), int64(2)}})
	require.Equal(t, []any{int64(1), int64(2)}, output)

	variable := draw().with("variables", []m{{"name": "request", "default": "VAR"}}).
		node("a", graph.LLMRigid, m{"template": "{{request}}"}).edge("start -> a")
	_, output = ran(t, variable, map[string]any{})
	require.Equal(t, "VAR", output)

	_, output = ran(t, draw().text("request").set("label", "Other").edge("start -> request"), map[string]any{})
	require.Equal(t, "text of request", output)

	assigned := draw().node("s", graph.DataVariableSet, m{"name": "score", "value": "1", "result_binding": "kept"}).
		text("t").set("label", "Score").node("u", graph.LLMRigid, m{"template": "{{score}}"}).edge("start -> s", "s -> t", "t -> u")
	_, output = ran(t, assigned, map[string]any{})
	require.Equal(t, int64(1), output)
}

// codesOf are the codes of the errors about a flow.
func codesOf(f *flow) (codes []string) {
	for _, d := range compile.Check(f.json()) {
		if d.Severity == graph.SeverityError {
			codes = append(codes, d.Code+" "+d.NodeID)
		}
	}
	return codes
}

func TestCheck_namesThatMeanTwoThings(t *testing.T) {
	for want, f := range map[string]*flow{
		"BAD_NAME input":   draw().text("input").edge("start -> input"),
		"NAME_TWICE ":      draw().with("variables", []m{{"name": "a"}}).text("a").edge("start -> a"),
		"NAME_TWICE s":     draw().text("a").node("s", graph.DataVariableSet, m{"name": "a", "value": "1"}).edge("start -> a", "a -> s"),
		"NAME_TAKEN index": draw().node("l", graph.LogicLoop, m{"items": "[1]"}).text("index").edge("start -> l", "l.out_body -> index", "index -> l"),
		"NAME_TAKEN doc":   draw().node("l", graph.LogicLoop, m{"items": "[1]", "var": "doc"}).text("doc").edge("start -> l", "l.out_body -> doc", "doc -> l"),
		"ARG_MISSING c":    draw().node("c", graph.ToolPlugin, m{"method": "cancel", "args": "{{input}}"}).edge("start -> c"),
		"BAD_ACTION my__node": draw().text("my").node("my__node", graph.LLMRigid, m{"template": "t", "on_failure": []any{m{"action": "weep"}}}).
			edge("start -> my", "my -> my__node"),
	} {
		require.Contains(t, codesOf(f), want)
	}
	require.Empty(t, codesOf(draw().node("p", graph.LogicParallel, nil).set("outputs", []m{{"id": "a", "label": "b"}, {"id": "b", "label": "b"}}).
		text("x", "y").edge("start -> p", "p.a -> x", "p.b -> y")))
	require.Empty(t, codesOf(draw().text("a").set("breakpoint", true).text("a__breakpoint").edge("start -> a", "a -> a__breakpoint")))
}

// Findings about nodes that do not run yet do not hide errors.
func TestCheck_manyThatDoNotRun(t *testing.T) {
	f, last := draw(), "start"
	for i := range 105 {
		id := fmt.Sprint("q", i)
		f.node(id, graph.QueuePublish, m{"queue": "x"}).edge(last + " -> " + id)
		last = id
	}
	f.node("bad", graph.LLMRigid, m{"template": "{{nowhere.x}}"}).edge(last + " -> bad")
	require.Contains(t, codesOf(f), "UNKNOWN_NAME bad")
}

// Edges of data bind names, order nothing, and say when they do nothing.
func TestCheck_edgesOfData(t *testing.T) {
	f := draw().text("a").node("b", graph.LLMRigid, m{"template": "{{score}}"}).set("inputs", []m{{"id": "in"}, {"id": "score"}}).
		edge("start -> a", "a -> b", "a =data=> b.score", "b =data=> a.in")
	_, output := ran(t, f, map[string]any{})
	require.Equal(t, "text of a", output)
	found := compile.Check(f.json())
	require.Len(t, found, 1)
	require.Equal(t, "e4", found[0].EdgeID)
	require.Contains(t, found[0].Message, "use b instead")

	f = draw().text("a").node("p", graph.LogicParallel, nil).set("inputs", []m{{"id": "in"}, {"id": "s", "label": "score"}}).text("x", "y").
		edge("start -> a", "a -> p", "p.out_1 -> x", "p.out_2 -> y", "a =data=> p.s")
	found = compile.Check(f.json())
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "have no names of their own: use a instead")
}

// Conditions, subjects, items and questions see the names that edges of data bind, and nothing behind the node does.
func TestCheck_edgesOfDataAtDecisionsLoopsAndQuestions(t *testing.T) {
	given := []m{{"id": "in"}, {"id": "g", "label": "given"}}
	for kind, f := range map[string]*flow{
		"if": draw().text("a").node("n", graph.LogicDecision, nil).set("inputs", given).text("yes", "no").
			edge("start -> a", "a -> n", "n -[given == 'text of a']-> yes", "n -[else]-> no"),
		"match": draw().text("a").node("n", graph.LogicDecision, m{"style": "match", "subject": "given"}).set("inputs", given).text("yes", "no").
			edge("start -> a", "a -> n", `n -["text of a"]-> yes`, "n -[else]-> no"),
		"foreach": draw().text("a").node("n", graph.LogicLoop, m{"items": "given.split(' ')"}).set("inputs", given).text("each").
			node("yes", graph.LLMRigid, m{"template": "text of yes"}).edge("start -> a", "a -> n", "n.out_body -> each", "each -> n", "n.out_done -> yes"),
		"while": draw().text("a").node("n", graph.LogicLoop, m{"style": "while", "when": "given != 'text of a'", "max_iterations": 3}).set("inputs", given).text("each").
			node("yes", graph.LLMRigid, m{"template": "text of yes"}).edge("start -> a", "a -> n", "n.out_body -> each", "each -> n", "n.out_done -> yes"),
	} {
		f.edge("a =data=> n.g")
		require.Empty(t, compile.Check(f.json()), kind)
		_, output := ran(t, f, map[string]any{})
		require.Equal(t, "text of yes", output, kind)
	}
	f := draw().text("a").node("q", graph.Checkpoint, m{"prompt": "Is it {{given}}?"}).set("inputs", given).edge("start -> a", "a -> q", "a =data=> q.g")
	require.Empty(t, compile.Check(f.json()))
	f.node("after", graph.LLMRigid, m{"template": "{{given}}"}).edge("q -> after")
	require.Equal(t, "UNKNOWN_NAME", compile.Check(f.json())[0].Code, "the name is for that node alone")
}

func TestMatch_valuesAreAllOfTheText(t *testing.T) {
	f := draw().node("d", graph.LogicDecision, m{"style": "match", "subject": "input.x"}).text("a", "b").edge("start -> d", "d -[1]]-> a", "d -[else]-> b")
	nodes, _ := ran(t, f, map[string]any{"x": int64(1)})
	require.Equal(t, "start d b", nodes)
}
