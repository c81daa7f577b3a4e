package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
)

// TestModule_saysWhatIsWrong has a program for each code, and the sentence that it gets.
func TestModule_saysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ code, body, says string }{
		{"BAD_KIND", `[{"kind":"dance","id":"a"}]`, `there is no block of kind "dance"`},
		{"BAD_KIND", `[{"kind":"rigid","id":"a","statements":[{"kind":"sing"}]}]`, `there is no statement of kind "sing"`},
		{"NOT_SUPPORTED", `[{"kind":"flexible","id":"a","goal":"x"}]`, `this version of Mind does not run blocks of kind flexible: they call a model, which is outside of the cluster`},
		{"NOT_SUPPORTED", `[{"kind":"rigid","id":"a","statements":[{"kind":"http_call","url":"http://x"}]}]`, `this version of Mind does not run http_call statements`},
		{"UNKNOWN_FIELD", `[{"kind":"wait","id":"a","duration":"1s","when":"true"}]`, `blocks of kind wait have no field "when"`},
		{"NAME_MISSING", `[{"kind":"wait","duration":"1s"}]`, `the block has no id`},
		{"BAD_NAME", `[{"kind":"wait","id":"a b","duration":"1s"}]`, `"a b" is no id for a block: letters, digits, _, . and - are allowed, at most 63`},
		{"NAME_TWICE", `[{"kind":"wait","id":"a","duration":"1s"},{"kind":"wait","id":"a","duration":"1s"}]`, `there are two blocks of the id "a", at flows[0].body[0] and here`},
		{"NAME_TAKEN", `[{"kind":"wait","id":"a","duration":"1s","result_binding":"b"},{"kind":"wait","id":"b","duration":"1s"}]`, `its result_binding "b" is the id of another block`},
		{"BAD_NAME", `[{"kind":"wait","id":"a","duration":"1s","result_binding":"input"}]`, `"input" is no name for a result: letters, digits and _ are allowed, and not input or trigger`},
		{"BAD_RETRY", `[{"kind":"wait","id":"a","duration":"1s","retry":{"max":1000}}]`, `retry.max is 1000, and 0 to 100 are allowed`},
		{"BAD_ACTION", `[{"kind":"wait","id":"a","duration":"1s","on_failure":[{"action":"panic"}]}]`, `"panic" is nothing to do on a failure: continue, checkpoint and fail are`},
		{"FIELD_MISSING", `[{"kind":"if","id":"a","cases":[]}]`, `the if has no cases`},
		{"FIELD_MISSING", `[{"kind":"match","id":"a","arms":[{"values":[1],"body":[]}]}]`, `the match has no subject`},
		{"NO_MAX_ITERATIONS", `[{"kind":"while","id":"a","when":"true","body":[{"kind":"wait","id":"b","duration":"1s"}]}]`, `while loop missing max_iterations`},
		{"BAD_LIMIT", `[{"kind":"foreach","id":"a","items":"[1]","max_concurrent":1000,"body":[{"kind":"wait","id":"b","duration":"1s"}]}]`, `max_concurrent is 1000, and at most 256 are allowed`},
		{"BAD_LIMIT", `[{"kind":"parallel","id":"a","branches":[]}]`, `the parallel has 0 branches, and 1 to 256 are allowed`},
		{"BAD_JOIN", `[{"kind":"parallel","id":"a","join":"most","branches":[{"name":"x","body":[]}]}]`, `join is "most", and all or any are allowed`},
		{"NAME_TWICE", `[{"kind":"parallel","id":"a","branches":[
			{"name":"x","body":[{"kind":"wait","id":"b","result_binding":"r","duration":"1s"}]},
			{"name":"y","body":[{"kind":"wait","id":"c","result_binding":"r","duration":"1s"}]}]}]`, `the branches "x" and "y" both bind "r"`},
		{"BAD_WAIT", `[{"kind":"wait","id":"a"}]`, `a wait has one of duration, until, event and callback, and this one has 0`},
		{"BAD_DURATION", `[{"kind":"wait","id":"a","duration":"soon"}]`, `"soon" is no time span: write 30s, 5m, 1h30m, 7d or 2w`},
		{"FIELD_MISSING", `[{"kind":"checkpoint","id":"a"}]`, `the checkpoint asks nothing: it has no prompt`},
		{"BAD_ANSWER", `[{"kind":"checkpoint","id":"a","prompt":"?","options":["y"],"schema":{}}]`, `a checkpoint has options or a schema, and this one has both`},
		{"BAD_ANSWER", `[{"kind":"checkpoint","id":"a","prompt":"?","options":["y"],"on_response":[{"values":["n"],"body":[]}]}]`, `n is no option of the checkpoint`},
		{"BAD_PRIORITY", `[{"kind":"checkpoint","id":"a","prompt":"?","priority":"urgent"}]`, `the priority is "urgent": low, normal, high and critical are allowed`},
		{"BAD_ACTION", `[{"kind":"checkpoint","id":"a","prompt":"?","on_timeout":"resolve:maybe"}]`, `on_timeout resolves as "maybe", which is no option`},
		{"BAD_LIMIT", `[{"kind":"checkpoint","id":"a","prompt":"?","quorum":{"needed":3,"of":2}}]`, `a quorum of 3 of 2 is not possible`},
		{"BAD_URL", `[{"kind":"checkpoint","id":"a","prompt":"?","notify_url":"{{input.url}}"}]`, `notify_url is "{{input.url}}": write a URL such as https://HOST/PATH; it has no placeholders`},
		{"BAD_ACTION", `[{"kind":"compute","id":"a","action":"deploy"}]`, `there is no action "deploy": train, evaluate, job, pause, resume and cancel are`},
		{"FIELD_MISSING", `[{"kind":"compute","id":"a","action":"job"}]`, `the compute block has no spec: write the body of the REST request of the job`},
		{"FIELD_MISSING", `[{"kind":"compute","id":"a","action":"cancel"}]`, `there is no job to cancel`},
		{"FIELD_MISSING", `[{"kind":"core_call","id":"a"}]`, `the call has no target: name a Core by its slug, or as core://TENANT/SLUG, or self`},
		{"NO_FLOW", `[{"kind":"core_call","id":"a","target":"self","flow":"other"}]`, `the call is of the flow "other", which the program does not have`},
		{"CYCLE", `[{"kind":"core_call","id":"a","target":"self"}]`, `cycle detected: main -> main; calls are at most 8 deep`},
		{"UNKNOWN_NAME", `[{"kind":"rigid","id":"train","statements":[{"kind":"return","value":"trian.loss"}]}]`, `statements[0].value uses the name "trian", which nothing binds`},
		{"UNKNOWN_NAME", `[{"kind":"compute","id":"a","action":"job","spec":{"x":"{{inputs.n}}"}}]`, `spec uses the name "inputs", which nothing binds; is "input" meant?`},
		{"EMPTY_BODY", `[]`, `the flow "main" does nothing: its body is empty`},
		{"UNREACHABLE", `[{"kind":"rigid","id":"a","statements":[{"kind":"return","value":"1"},{"kind":"return","value":"2"}]}]`, `nothing after the return runs`},
	} {
		m, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":` + c.body + `}]}`))
		require.NoError(t, err, c.body)
		found := check.Module(m)
		var all []string
		for _, d := range found {
			all = append(all, d.Code+": "+d.Message)
		}
		require.Contains(t, all, c.code+": "+c.says, "%s", c.body)
	}
}

func TestModule_findingsNameTheNode(t *testing.T) {
	m, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[{"kind":"if","id":"d","node_id":"node_1","cases":[{"when":"true","body":[
		{"kind":"wait","id":"w","source_location":{"node_id":"node_2"}}]}]}]}]}`))
	require.NoError(t, err)
	found := check.Module(m)
	require.Equal(t, []check.Diagnostic{{
		Severity: check.SeverityError, Code: "BAD_WAIT", Message: "a wait has one of duration, until, event and callback, and this one has 0",
		Path: "flows[0].body[0].cases[0].body[0]", BlockID: "w", NodeID: "node_2",
	}}, found)
	require.True(t, check.Failed(found))
}

func TestModule_declarations(t *testing.T) {
	for source, says := range map[string]string{
		`{"schema_version":"9","name":"p","flows":[]}`:                                                   `the schema version is "9", and this version of Mind reads "0.1"`,
		`{"schema_version":"0.1","name":"","flows":[]}`:                                                  "the program has no name",
		`{"schema_version":"0.1","name":"p","flows":[]}`:                                                 "flow has no entry-point node: the program needs at least one flow",
		`{"schema_version":"0.1","name":"p","flows":[],"triggers":[{"kind":"mail"}]}`:                    `there is no trigger of kind "mail": api, webhook, schedule and event are`,
		`{"schema_version":"0.1","name":"p","flows":[],"triggers":[{"kind":"schedule","cron":"daily"}]}`: `the schedule "daily" does not have the five fields of cron`,
		`{"schema_version":"0.1","name":"p","flows":[],"triggers":[{"kind":"api","target_flow":"x"}]}`:   `the trigger starts the flow "x", which the program does not have`,
		`{"schema_version":"0.1","name":"p","flows":[],"models":[{"role":"A","model":"m"}]}`:             `"A" is no role of a model: it has to match ^[a-z][a-z0-9_]*$`,
		`{"schema_version":"0.1","name":"p","flows":[],"variables":[{"name":"input"}]}`:                  `the variable "input" has the name of something that every flow has`,
		`{"schema_version":"0.1","name":"p","flows":[{"name":"a","body":[]},{"name":"a","body":[]}]}`:    `there are two flows of the name "a"`,
	} {
		m, err := ir.Parse([]byte(source))
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(check.Module(m)), says)
	}
}

func TestParse_saysWhereItFailed(t *testing.T) {
	for body, says := range map[string]string{
		`[{"kind":"if","id":"d","cases":5}]`:                          `block "d": cases may not be a number`,
		`[{"kind":"if","id":"d","cases":[{"when":"1 +","body":[]}]}]`: `block "d": the expression "1 +": `,
		`[{"kind":"wait","id":"w","duration":"{{a"}]`:                 `block "w": the expression "{{a": `,
		`[{"kind":"wait","id":"w","timeout":"soon","duration":"1s"}]`: `block "w": "soon" is no time span`,
		`[7]`: `a block has to be an object`,
	} {
		_, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":` + body + `}]}`))
		require.ErrorContains(t, err, says, body)
	}
	_, err := ir.Parse([]byte(`{"name":`))
	require.EqualError(t, err, "this is no JSON: it ends too early")
	_, err = ir.Parse([]byte(`{"nome":1}`))
	require.ErrorContains(t, err, `unknown field "nome"`)
	_, err = ir.Parse([]byte(`{"name":"` + strings.Repeat("x", ir.MaxBytes) + `"}`))
	require.ErrorContains(t, err, "at most 524288 are allowed")
}

// TestModule_survivesItsOwnForm holds that a program that was read and written again is the same program.
func TestModule_survivesItsOwnForm(t *testing.T) {
	m, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","timeout":"7d","body":[
		{"kind":"foreach","id":"a","items":"{{input.list}}","collect":"item + 1","body":[{"kind":"compute","id":"j","action":"job","spec":{"n":1,"x":"{{item}}"}}]}]}]}`))
	require.NoError(t, err)
	once, err := m.Encode()
	require.NoError(t, err)
	again, err := ir.Parse(once)
	require.NoError(t, err)
	twice, err := again.Encode()
	require.NoError(t, err)
	require.Equal(t, string(once), string(twice))
	require.Contains(t, string(once), `{"text":"input.list","ast":[".",["get","input"],"list"]}`)
}
