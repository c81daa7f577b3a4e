package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/machine"
)

// A wait whose result has come is over: there is nothing to cancel. play requires that only open waits are given up.
func TestGiveUp_leavesAnsweredWaits(t *testing.T) {
	p := begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{},"on_failure":[{"action":"checkpoint"}]}]`, nil)
	p.answer("j", nil, oom)
	p.answer("j", map[string]any{"resolution": "fail"}, nil)
	require.Equal(t, "OOM", p.out.Err.Code)

	p = begin(t, `[{"kind":"parallel","id":"both","branches":[
		{"name":"a","body":[{"kind":"compute","id":"a","action":"job","spec":{}}]},
		{"name":"b","body":[{"kind":"compute","id":"b","action":"job","spec":{}}]}]}]`, nil)
	results := map[uint32]machine.Result{p.wait("a"): {Err: oom}, p.wait("b"): {Value: 1}}
	clear(p.open)
	p.advance(machine.Input{Results: results})
	require.Equal(t, machine.Failed, p.out.Status)
}

func TestFrame_thatIsTooLargeGivesUpWhatWaits(t *testing.T) {
	p := begin(t, `[{"kind":"parallel","id":"both","branches":[
		{"name":"a","body":[{"kind":"compute","id":"a","action":"job","spec":{}},
			{"kind":"rigid","id":"big","statements":[{"kind":"assign","name":"list","value":"range(input.n).map(i, 'an item with a rather long text in it, ' + string(i))"}]}]},
		{"name":"b","body":[{"kind":"compute","id":"b","action":"job","spec":{}}]}]}]`, map[string]any{"n": int64(2000)})
	p.answer("a", nil, nil)
	require.Equal(t, machine.CodeTooLarge, p.out.Err.Code)
	p.retry("")
	require.ElementsMatch(t, []string{"a", "b"}, p.waits(), "each wait of the frame has an effect")
}

// A branch that has failed does not keep its jobs until the others are over.
func TestFailedBranch_givesUpItsWaits(t *testing.T) {
	p := begin(t, `[{"kind":"parallel","id":"both","fail_fast":false,"branches":[
		{"name":"a","body":[{"kind":"parallel","id":"inner","branches":[
			{"name":"x","body":[{"kind":"compute","id":"x","action":"job","spec":{}}]},
			{"name":"y","body":[{"kind":"compute","id":"y","action":"job","spec":{}}]}]}]},
		{"name":"b","body":[{"kind":"compute","id":"b","action":"job","spec":{}}]}]}]`, nil)
	p.answer("x", nil, oom)
	require.Equal(t, machine.Waiting, p.out.Status)
	require.Equal(t, []string{"b"}, p.waits())
}

func TestCompensation_ofWhatWasDoneAlone(t *testing.T) {
	body := `[{"kind":"compute","id":"j","action":"job","spec":{},"on_failure":[{"action":"%s"}],
		"compensate":[{"kind":"rigid","id":"undo","statements":[{"kind":"emit","event":"undone","data":"{{result}}"}]}]},
		{"kind":"wait","id":"w","event":"go"}]`
	p := begin(t, sprintf(body, "continue"), nil)
	p.answer("j", nil, oom)
	p.advance(machine.Input{Cancel: true})
	require.Equal(t, machine.Canceled, p.out.Status)
	require.NotContains(t, p.said, "emit undone", "a failure that was handled leaves nothing to undo")

	p = begin(t, sprintf(body, "checkpoint"), nil)
	p.answer("j", nil, oom)
	p.answer("j", map[string]any{"resolution": "retry"}, nil)
	p.answer("j", 1, nil)
	p.advance(machine.Input{Cancel: true})
	require.Contains(t, p.said, "emit undone")
}

func TestCompensation_seesTheResultOfItsBlock(t *testing.T) {
	p := begin(t, `[{"kind":"foreach","id":"each","items":"[1]","var":"result","body":[{"kind":"compute","id":"j","action":"job","spec":{},
		"compensate":[{"kind":"rigid","id":"undo","statements":[{"kind":"emit","event":"undone","data":"{{result}}"}]}]}]},
		{"kind":"wait","id":"w","event":"go"}]`, nil)
	p.answer("j[0]", "done", nil)
	p.advance(machine.Input{Cancel: true})
	require.Equal(t, "done", p.out.Records[1].Value)
}

func TestAdvance_ofAnExecutionThatIsOver(t *testing.T) {
	p := begin(t, `[{"kind":"debug","id":"d"}]`, nil)
	p.completed(nil)
	for _, in := range []machine.Input{{}, {Cancel: true}} {
		_, err := p.program.Advance(p.frame, in, p.limits)
		require.ErrorIs(t, err, machine.ErrOver)
	}
	p = begin(t, `[{"kind":"rigid","id":"r","statements":[{"kind":"fail","code":"X"}]}]`, nil)
	_, err := p.program.Advance(p.frame, machine.Input{}, p.limits)
	require.ErrorIs(t, err, machine.ErrOver)
	p.advance(machine.Input{Cancel: true})
	require.Equal(t, machine.Canceled, p.out.Status)
}

// The deepest program and the deepest value that are accepted fit into a frame that can be read.
func TestFrame_ofTheDeepestProgram(t *testing.T) {
	deep := any(nil)
	for range 60 {
		deep = []any{deep}
	}
	body := `[{"kind":"compute","id":"j","action":"job","spec":{}}]`
	for i := range 31 {
		body = sprintf(`[{"kind":"foreach","id":"f%d","items":"[input]","body":%s}]`, i, body)
	}
	p := begin(t, body, map[string]any{"deep": deep})
	require.Equal(t, machine.Waiting, p.out.Status)
	p.answer(p.waits()[0], deep, nil)
	require.Equal(t, machine.Completed, p.out.Status, "%v", p.out.Err)
}
