package compile_test

import (
	"fmt"

	"github.com/mindcoordinator/mind/flow/graph"
)

// allCodes are the codes of all findings that a drawing can show.
var allCodes = []string{
	"SYNTAX", "NAME_MISSING", "NAME_TWICE", "BAD_NAME", "BAD_VERSION", "BAD_TARGET", "BAD_TIME", "BAD_ROLE", "BAD_FIELD", "BAD_KIND",
	"BAD_PORT", "BAD_CRON", "BAD_METHOD", "BAD_EDGE", "BAD_CONDITION", "FIELD_MISSING", "UNKNOWN_FIELD", "UNKNOWN_NAME", "UNUSED_CONDITION",
	"UNUSED_PORT", "UNREACHABLE", "NO_ENTRY", "NO_NODE", "NO_PORT", "NO_ROLE", "NO_MAX_ITERATIONS", "NO_DEFAULT", "NO_FLOW", "ARG_MISSING", "CYCLE",
	"CROSSING", "FAN_OUT", "TWO_DEFAULTS", "BRANCH_ENDS", "EMPTY_BODY", "NOT_SUPPORTED", "BAD_ACTION", "BAD_RETRY", "BAD_LIMIT",
	"NAME_TAKEN", "TOO_DEEP", "BAD_ANSWER",
}

// structures are drawings of which only the edges matter.
func structures() []golden {
	decision := func() *flow { return draw().node("d", graph.LogicDecision, nil).edge("start -> d") }
	parallel := func() *flow { return draw().node("p", graph.LogicParallel, nil).edge("start -> p") }
	loop := func() *flow {
		return draw().node("l", graph.LogicLoop, m{"items": "input.items"}).edge("start -> l")
	}
	match := func() *flow {
		return draw().node("d", graph.LogicDecision, m{"style": "match", "subject": "input.x"}).edge("start -> d")
	}
	return []golden{
		{"a line", draw().text("a", "b", "c").edge("start -> a", "a -> b", "b -> c").json()},
		{"two branches meet", decision().text("a", "b", "c").edge("d -[input.x > 1]-> a", "d -[else]-> b", "a -> c", "b -> c").json()},
		{"the default is sequential", decision().text("a", "b", "c").edge("d -[input.x > 1]-> a", "d -> b", "a -> c", "b -> c").json()},
		{"the default stands first", decision().text("a", "b").edge("d -[else]-> b", "d -[input.x > 1]-> a").json()},
		{"three branches, the first true one wins", decision().text("a", "b", "c", "e").edge("d -[input.x > 2]-> a", "d -[input.x > 1]-> b", "d -[else]-> c", "a -> e", "b -> e", "c -> e").json()},
		{"a branch is empty", decision().text("a", "c").edge("d -[input.x > 1]-> a", "d -[else]-> c", "a -> c").json()},
		{"both branches are empty", decision().text("c").edge("d -[input.x > 1]-> c", "d -[else]-> c").json()},
		{"no branch meets another", decision().text("a", "b").edge("d -[input.x > 1]-> a", "d -[else]-> b").json()},
		{"a branch ends the flow", decision().text("a", "b", "c", "e").edge("d -[input.x > 1]-> a", "d -[input.x > 2]-> b", "d -[else]-> c", "a -> e", "b -> e").json()},
		{"no default", decision().text("a", "c").edge("d -[input.x > 1]-> a", "a -> c").json()},
		{"no default, and they meet", decision().text("a", "b", "c").edge("d -[input.x > 1]-> a", "d -[input.x > 2]-> b", "a -> c", "b -> c").json()},
		{"a decision in a branch", decision().node("e", graph.LogicDecision, nil).text("a", "b", "c", "z").edge("d -[input.x > 1]-> e", "d -[else]-> c", "e -[input.y]-> a", "e -[else]-> b", "a -> z", "b -> z", "c -> z").json()},
		{"a decision in a branch meets before", decision().node("e", graph.LogicDecision, nil).text("a", "b", "y", "c", "z").edge("d -[input.x > 1]-> e", "d -[else]-> c", "e -[input.y]-> a", "e -[else]-> b", "a -> y", "b -> y", "y -> z", "c -> z").json()},
		{"an inner branch ends the flow", decision().node("e", graph.LogicDecision, nil).text("a", "b", "c", "z").edge("d -[input.x > 1]-> e", "d -[else]-> c", "e -[input.y]-> a", "e -[else]-> b", "b -> z", "c -> z").json()},
		{"conditions behind a node", draw().text("a", "b", "c").edge("start -> a", "a -[a == 'x']-> b", "a -[else]-> c").json()},
		{"conditions behind the entry", draw().text("b", "c", "e").edge("start -[input.x]-> b", "start -[else]-> c", "b -> e", "c -> e").json()},
		{"a match of texts", match().text("a", "b", "c").edge("d -[approve]-> a", `d -["reject"]-> b`, "d -[else]-> c").json()},
		{"a match of lists and numbers", match().text("a", "b").edge(`d -[["x", "y"]]-> a`, "d -[1.50]-> b").json()},
		{"a parallel joins", parallel().text("a", "b", "c").edge("p.out_1 -> a", "p.out_2 -> b", "a -> c", "b -> c").json()},
		{"a parallel does not join", parallel().text("a", "b").edge("p.out_1 -> a", "p.out_2 -> b").json()},
		{"a branch of a parallel ends", draw().node("p", graph.LogicParallel, nil).set("outputs", []m{{"id": "x", "label": "left"}, {"id": "y", "label": "right"}, {"id": "z"}}).text("a", "b", "c", "e").edge("start -> p", "p.x -> a", "p.y -> b", "p.z -> c", "a -> e", "b -> e").json()},
		{"a parallel in a branch", decision().node("p", graph.LogicParallel, nil).text("a", "b", "c", "z").edge("d -[input.x]-> p", "d -[else]-> c", "p.out_1 -> a", "p.out_2 -> b", "a -> z", "b -> z", "c -> z").json()},
		{"a parallel at the end of a branch", decision().node("p", graph.LogicParallel, nil).text("a", "b", "c", "y", "z").edge("d -[input.x]-> p", "d -[input.y]-> c", "d -[else]-> y", "p.out_1 -> a", "p.out_2 -> b", "c -> z", "y -> z").json()},
		{"a decision in a parallel", parallel().node("d", graph.LogicDecision, nil).text("a", "b", "c", "z").edge("p.out_1 -> d", "p.out_2 -> c", "d -[input.x]-> a", "d -[else]-> b", "a -> z", "b -> z", "c -> z").json()},
		{"a loop", loop().text("a", "b", "z").edge("l.out_body -> a", "a -> b", "b -> l", "l.out_done -> z").json()},
		{"the body of a loop does not come back", loop().text("a", "z").edge("l.out_body -> a", "l.out_done -> z").json()},
		{"nothing follows a loop", loop().text("a").edge("l.out_body -> a", "a -> l").json()},
		{"a decision in a loop", loop().node("d", graph.LogicDecision, nil).text("a", "b", "z").edge("l.out_body -> d", "d -[item > 1]-> a", "d -[else]-> l", "a -> b", "b -> l", "l.out_done -> z").json()},
		{"a decision in a loop ends twice", loop().node("d", graph.LogicDecision, nil).text("a", "b", "z").edge("l.out_body -> d", "d -[item > 1]-> a", "d -[else]-> b", "a -> l", "l.out_done -> z").json()},
		{"a loop in a loop", loop().node("k", graph.LogicLoop, m{"items": "item.list", "var": "inner"}).text("a", "b", "z").edge("l.out_body -> k", "k.out_body -> a", "a -> k", "k.out_done -> b", "b -> l", "l.out_done -> z").json()},
		{"a while", draw().node("l", graph.LogicLoop, m{"style": "while", "when": "input.more", "max_iterations": 10}).text("a").edge("start -> l", "l.out_body -> a", "a -> l").json()},
		{"a loop in a parallel", parallel().node("l", graph.LogicLoop, m{"items": "input.items"}).text("a", "b", "z").edge("p.out_1 -> l", "p.out_2 -> b", "l.out_body -> a", "a -> l", "l.out_done -> z", "b -> z").json()},
		{"a breakpoint", draw().text("a").set("breakpoint", true).text("b").edge("start -> a", "a -> b").json()},
		{"a breakpoint at a decision", draw().node("d", graph.LogicDecision, m{"breakpoint": true}).text("a", "b").edge("start -> d", "d -[input.x]-> a", "d -[else]-> b").json()},
		{"two entries share a node", draw().node("other", graph.EntryAPI, nil).text("a").edge("start -> a", "other -> a").json()},
		{"two entries of one label", draw().node("other", graph.EntryWebhook, nil).set("label", "Demo flow").text("a").edge("start -> a", "other -> a").json()},
		{"data", draw().text("a").node("job", graph.ToolPlugin, m{"args": m{"command_config": m{"argv": []any{"{{score}}"}}}}).set("inputs", []m{{"id": "in"}, {"id": "s", "label": "score"}}).edge("start -> a", "a -> job", "a =data=> job.s").json()},
		{"names", draw().text("a").set("label", "My Result!").node("b", graph.LLMRigid, m{"template": "{{my_result}} {{a}} {{request.x}} {{trigger}}"}).edge("start -> a", "a -> b").json()},
		{"one label of two nodes", draw().text("a").set("label", "Same").text("b").set("label", "Same").edge("start -> a", "a -> b").json()},
		{"a label that is an id", draw().text("a").text("b").set("label", "a").edge("start -> a", "a -> b").json()},
		{"mind trains, evaluates, asks", draw().
			node("train", graph.ToolPlugin, m{"method": "train", "args": m{"training_config": m{"method": "LORA"}, "resource_config": m{"gpu_count": 1}}}).
			node("score", graph.ToolPlugin, m{"method": "evaluate", "args": m{"job_id": "{{train.job_id}}", "benchmarks": []any{m{"name": "acc"}}}}).
			node("good", graph.LogicDecision, nil).
			node("ask", graph.Checkpoint, m{"prompt": "Publish {{train.job_id}}?", "options": []any{"publish", "keep"}, "timeout": "1d", "on_timeout": "resolve:keep"}).
			node("which", graph.LogicDecision, m{"style": "match", "subject": "ask.resolution"}).
			text("publish", "keep").
			edge("start -> train", "train -> score", "score -> good", "good -[score.results[0].metrics.acc > 0.7]-> ask", "good -[else]-> keep",
				"ask -> which", "which -[publish]-> publish", "which -[else]-> keep").json()},
		{"variables and models", draw().with("variables", []m{{"name": "limit", "type": "int", "default": 5}}).with("metadata", m{"author": "ada", "created": "2027-01-31T12:00:00Z"}).
			with("config", m{"core_identity": m{"name": "Ada", "models": []m{{"role": "primary", "ref": "openai", "model": "m"}, {"role": "second", "model": "n", "fallback": []m{{"model": "o"}}}}}, "plugins": []any{"scaidrive"}, "publish_as_model": true, "model_visibility_group_ids": []any{"g1"}}).
			text("a").edge("start -> a").json()},
	}
}

// findings are drawings that are wrong in one way each.
func findings() []golden {
	line := func() *flow { return draw().text("a").edge("start -> a") }
	deep := draw()
	last := "start"
	for i := range 34 {
		id := fmt.Sprintf("d%d", i)
		deep.node(id, graph.LogicLoop, m{"items": "input.items"})
		if last == "start" {
			deep.edge("start -> " + id)
		} else {
			deep.edge(last + ".out_body -> " + id)
		}
		last = id
	}
	deep.text("a").edge(last + ".out_body -> a")
	return []golden{
		{"no JSON", []byte(`{"name":`)},
		{"a list", []byte(`[]`)},
		{"more after it", []byte(`{} {}`)},
		{"a field of another type", []byte(`{"nodes": 5}`)},
		{"empty", []byte(`{}`)},
		{"an unknown field", line().with("colour", "red").json()},
		{"unknown fields", draw().text("a").set("colour", "red").edge("start -> a").with("config", m{"x": 1}).json()},
		{"no name", line().with("name", " ").json()},
		{"no id", line().with("id", "").json()},
		{"a version", line().with("version", "1.0").json()},
		{"a target", line().with("scaicore_target", "0.3").json()},
		{"a time", line().with("metadata", m{"created": "yesterday"}).json()},
		{"a variable", line().with("variables", []m{{"name": "a b"}, {"name": "x"}, {"name": "x"}}).json()},
		{"models", line().with("config", m{"core_identity": m{"models": []m{{"role": "Big", "model": "m"}, {"role": "r", "model": ""}, {"role": "r", "model": "m", "temperature": 3, "modalities": []any{"smell"}}}}}).json()},
		{"no entry", draw().json()[:0:0]},
		{"nodes without an entry", (&flow{rest: m{"id": "f", "name": "x"}}).text("a").json()},
		{"nothing behind the entry", draw().json()},
		{"a node without id", line().node("x", graph.LLMRigid, m{"template": "t"}).set("id", "").json()},
		{"an id with a space", line().node("x", graph.LLMRigid, m{"template": "t"}).set("id", "a b").json()},
		{"two nodes of one id", line().text("a").json()},
		{"no label", draw().text("a").set("label", "").edge("start -> a").json()},
		{"a kind", draw().node("a", "llm_magic", nil).edge("start -> a").json()},
		{"ports", draw().text("a").set("outputs", []m{{"id": "out"}, {"id": "out"}, {"id": ""}}).edge("start -> a").json()},
		{"an entry with inputs", (&flow{rest: m{"id": "f", "name": "x"}}).node("start", graph.EntryAPI, nil).set("inputs", []m{{"id": "in"}}).text("a").edge("start -> a").json()},
		{"an edge to nowhere", line().edge("a -> b").json()},
		{"an edge from a port that is not there", line().text("b").edge("a.out_2 -> b").json()},
		{"an edge to a port that is not there", line().text("b").edge("a -> b.side").json()},
		{"edges without ids", func() []byte { f := line(); f.edges[0]["id"] = ""; return f.json() }()},
		{"two edges of one id", func() []byte { f := line().text("b").edge("a -> b"); f.edges[1]["id"] = "e1"; return f.json() }()},
		{"fields of cron", (&flow{rest: m{"id": "f", "name": "x"}}).node("start", graph.EntrySchedule, m{"cron": "* *"}).text("a").edge("start -> a").json()},
		{"a type of edge", func() []byte { f := line(); f.edges[0]["type"] = "wavy"; return f.json() }()},
		{"a condition that is not used", func() []byte { f := line(); f.edges[0]["condition"] = "x"; return f.json() }()},
		{"a condition is missing", line().text("b").edge("a -[]-> b").json()},
		{"a condition that cannot be read", line().text("b").edge("a -[1 +]-> b").json()},
		{"a role that is not declared", draw().node("a", graph.LLMFlexible, m{"goal": "g", "llm_role": "critic"}).edge("start -> a").json()},
		{"a method of mind", draw().node("a", graph.ToolPlugin, m{"method": "fly"}).edge("start -> a").json()},
		{"an argument of mind", draw().node("a", graph.ToolPlugin, m{"method": "cancel", "args": m{}}).edge("start -> a").json()},
		{"data that binds nothing", line().text("b").edge("a -> b", "a =data=> b.in").json()},
		{"a cycle", line().text("b").edge("a -> b", "b -> a").json()},
		{"a cycle through a loop", draw().node("l", graph.LogicLoop, m{"items": "[]"}).text("a", "z").edge("start -> l", "l.out_body -> a", "l.out_done -> z", "z -> l").json()},
		{"a node that never runs", line().text("b").json()},
		{"an unused port", draw().node("p", graph.LogicParallel, nil).text("a").edge("start -> p", "p.out_1 -> a").json()},
		{"fan out", line().text("b", "c").edge("a -> b", "a -> c").json()},
		{"two branches at one port", draw().node("p", graph.LogicParallel, nil).text("a", "b").edge("start -> p", "p.out_1 -> a", "p.out_1 -> b").json()},
		{"two defaults", draw().node("d", graph.LogicDecision, nil).text("a", "b", "c").edge("start -> d", "d -[input.x]-> a", "d -[else]-> b", "d -> c").json()},
		{"crossing branches", draw().node("d", graph.LogicDecision, nil).text("a", "b", "y", "z").edge("start -> d", "d -[input.x]-> a", "d -[input.y]-> b", "d -[else]-> z", "a -> y", "b -> y", "y -> z").json()},
		{"a branch leaves a loop", draw().node("l", graph.LogicLoop, m{"items": "[]"}).node("d", graph.LogicDecision, nil).text("a", "z").edge("start -> l", "l.out_body -> d", "d -[item]-> a", "d -[else]-> z", "a -> l", "l.out_done -> z").json()},
		{"a branch leads to the outer loop", draw().node("l", graph.LogicLoop, m{"items": "[]"}).node("k", graph.LogicLoop, m{"items": "[]"}).text("a").edge("start -> l", "l.out_body -> k", "k.out_body -> a", "a -> l").json()},
		{"a branch ends in a loop", draw().node("l", graph.LogicLoop, m{"items": "[]"}).node("d", graph.LogicDecision, nil).text("a", "b", "c", "e").edge("start -> l", "l.out_body -> d", "d -[item > 1]-> a", "d -[item > 2]-> b", "d -[else]-> c", "a -> e", "b -> e", "e -> l").json()},
		{"conditions behind a parallel", draw().node("p", graph.LogicParallel, nil).text("a", "b").edge("start -> p", "p.out_1 -[input.x]-> a", "p.out_2 -> b").json()},
		{"conditions behind a loop", draw().node("l", graph.LogicLoop, m{"items": "[]"}).text("a").edge("start -> l", "l.out_body -[item]-> a").json()},
		{"a loop without a body", draw().node("l", graph.LogicLoop, m{"items": "[]"}).text("z").edge("start -> l", "l.out_done -> z").json()},
		{"a while without an end", draw().node("l", graph.LogicLoop, m{"style": "while"}).text("a").edge("start -> l", "l.out_body -> a").json()},
		{"a match without a subject", draw().node("d", graph.LogicDecision, m{"style": "match"}).text("a").edge("start -> d", "d -[x]-> a").json()},
		{"a name that nothing binds", draw().node("a", graph.LLMRigid, m{"template": "{{reqest.x}}"}).edge("start -> a").json()},
		{"an action on failure", draw().node("a", graph.LLMRigid, m{"template": "t", "on_failure": []any{m{"action": "weep"}}}).edge("start -> a").json()},
		{"a retry", draw().node("a", graph.LLMRigid, m{"template": "t", "retry": m{"max": 1000}}).edge("start -> a").json()},
		{"a schema and options", draw().node("a", graph.Checkpoint, m{"prompt": "p", "options": []any{"x"}, "schema": m{}}).edge("start -> a").json()},
		{"a quorum", draw().node("a", graph.Checkpoint, m{"prompt": "p", "quorum": m{"needed": 3, "of": 2}}).edge("start -> a").json()},
		{"a subflow that is not there", draw().node("a", graph.SubflowCall, m{"target": "self", "flow_name": "gone"}).edge("start -> a").json()},
		{"a result with the id of a node", draw().text("a").node("b", graph.LLMRigid, m{"template": "t", "result_binding": "a"}).edge("start -> a", "a -> b").json()},
		{"an unknown field of a node", draw().node("a", graph.LLMRigid, m{"template": "t", "colour": "red"}).edge("start -> a").json()},
		{"too deep", deep.json()},
	}
}
