package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/machine"
)

func (p *play) retry(from string) {
	p.Helper()
	require.Equal(p, machine.Failed, p.out.Status)
	require.Empty(p, p.open, "a failed execution waits for nothing")
	frame, err := p.program.Retry(p.frame, from, nil)
	require.NoError(p, err)
	p.frame = frame
	p.advance(machine.Input{})
}

var oom = &machine.Error{Code: "OOM", Message: "out of memory"}

// Every branch that has failed is tried again, however it failed, and not the first one alone.
func TestRetryByHand_afterTwoBranchesFailed(t *testing.T) {
	for name, second := range map[string]struct {
		blocks string
		fail   func(p *play)
	}{
		"plainly":            {`{"kind":"compute","id":"b","action":"job","spec":{}}`, func(*play) {}},
		"in a handler":       {`{"kind":"compute","id":"b","action":"job","spec":{},"on_failure":[{"action":"fail"}]}`, func(*play) {}},
		"by a decision":      {`{"kind":"compute","id":"b","action":"job","spec":{},"on_failure":[{"action":"checkpoint"}]}`, func(p *play) { p.answer("b", map[string]any{"resolution": "fail"}, nil) }},
		"in a try":           {`{"kind":"try","id":"t","body":[{"kind":"compute","id":"b","action":"job","spec":{}}],"finally":[{"kind":"debug","id":"d"}]}`, func(*play) {}},
		"after its attempts": {`{"kind":"compute","id":"b","action":"job","spec":{},"retry":{"max":0}}`, func(*play) {}},
		"in a case":          {`{"kind":"if","id":"i","cases":[{"when":"true","body":[{"kind":"compute","id":"b","action":"job","spec":{}}]}],"on_failure":[{"match":["X"],"action":"continue"}]}`, func(*play) {}},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, `[{"kind":"parallel","id":"both","fail_fast":false,"branches":[
				{"name":"a","body":[{"kind":"compute","id":"a","action":"job","spec":{}}]},
				{"name":"b","body":[`+second.blocks+`,{"kind":"rigid","id":"c","statements":[{"kind":"expression","expression":"b"}]}]}]}]`, nil)
			p.answer("a", nil, oom)
			p.answer("b", nil, oom)
			second.fail(p)
			p.retry("")
			require.ElementsMatch(t, []string{"a", "b"}, p.waits())
			p.answer("a", 1, nil)
			p.answer("b", 2, nil)
			p.completed(map[string]any{"a": 1, "b": 2})
		})
	}
}

func TestRetryByHand_ofAFinallyThatWasGivenUp(t *testing.T) {
	p := begin(t, `[{"kind":"parallel","id":"both","branches":[
		{"name":"a","body":[{"kind":"try","id":"t","body":[{"kind":"compute","id":"a","action":"job","spec":{}}],"finally":[{"kind":"wait","id":"clean","event":"go"}]}]},
		{"name":"b","body":[{"kind":"compute","id":"b","action":"job","spec":{}}]}]}]`, nil)
	p.answer("a", nil, oom)
	p.answer("b", nil, &machine.Error{Code: "NODE_LOST"})
	p.retry("")
	require.ElementsMatch(t, []string{"clean", "b"}, p.waits())
	p.answer("clean", nil, nil)
	require.Equal(t, machine.Failed, p.out.Status)
	require.Equal(t, "OOM", p.out.Err.Code, "the try has failed, and its error is not forgotten")
}

func TestRetryByHand_afterTheTimeoutOfTheFlow(t *testing.T) {
	p := beginModule(t, `{"schema_version":"0.1","name":"p","flows":[{"name":"main","timeout":"1h","body":[
		{"kind":"foreach","id":"each","items":"[1,2]","body":[{"kind":"compute","id":"j","action":"job","spec":{}}]}]}]}`, nil)
	p.answer("j[0]", 1, nil)
	p.answer("", nil, nil)
	require.Equal(t, machine.CodeTimeout, p.out.Err.Code)
	p.retry("")
	require.ElementsMatch(t, []string{"", "j[1]"}, p.waits(), "the first iteration is done")
	p.answer("j[1]", 2, nil)
	p.completed([]any{1, 2})
}

func TestRetryByHand_fromAStepWithinABlock(t *testing.T) {
	p := begin(t, `[{"kind":"foreach","id":"each","items":"[1,2]","body":[
		{"kind":"compute","id":"j","action":"job","spec":{}},{"kind":"compute","id":"k","action":"job","spec":{}}]}]`, nil)
	p.answer("j[0]", 1, nil)
	p.answer("k[0]", 1, nil)
	p.answer("j[1]", 1, nil)
	p.answer("k[1]", nil, oom)
	p.retry("j")
	require.Equal(t, []string{"j[1]"}, p.waits(), "the iterations that are done stay done")
	p.answer("j[1]", 3, nil)
	p.answer("k[1]", 4, nil)
	p.completed([]any{1, 4})
}
