package machine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

// play is one execution that a test drives.
type play struct {
	*testing.T
	program *machine.Program
	frame   []byte
	out     *machine.Output
	limits  machine.Limits
	// open are the effects that have no result.
	open map[uint32]machine.Effect
	// said are the records so far, in words.
	said []string
}

func begin(t *testing.T, body string, input map[string]any) *play {
	t.Helper()
	return beginModule(t, fmt.Sprintf(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":%s}]}`, body), input)
}

func beginModule(t *testing.T, source string, input map[string]any) *play {
	t.Helper()
	m, err := ir.Parse([]byte(source))
	require.NoError(t, err)
	require.Empty(t, check.Module(m))
	program, err := machine.NewProgram(m, "")
	require.NoError(t, err)
	frame, err := program.Start(input, nil)
	require.NoError(t, err)
	p := &play{T: t, program: program, frame: frame, limits: machine.DefaultLimits, open: map[uint32]machine.Effect{}}
	p.advance(machine.Input{})
	return p
}

func (p *play) advance(in machine.Input) {
	p.Helper()
	for {
		out, err := p.program.Advance(p.frame, in, p.limits)
		require.NoError(p, err)
		twin, err := p.program.Advance(p.frame, in, p.limits)
		require.NoError(p, err)
		require.Equal(p, out, twin, "an Advance is deterministic")
		require.LessOrEqual(p, len(out.Frame), machine.MaxFrame)
		p.frame, p.out = out.Frame, out
		for _, e := range out.Effects {
			if e.Kind == machine.Cancel {
				require.Contains(p, p.open, e.Wait, "only an open wait is given up")
				delete(p.open, e.Wait)
				continue
			}
			require.NotContains(p, p.open, e.Wait, "a wait is used once")
			p.open[e.Wait] = e
		}
		for _, r := range out.Records {
			text := []string{"", "enter", "exit", "fail", "retry", "emit"}[r.Kind] + " " + r.Path
			if r.Kind == machine.Emitted {
				text = "emit " + r.Name
			}
			p.said = append(p.said, text)
		}
		if out.Status != machine.More {
			return
		}
		in = machine.Input{}
	}
}

// answer gives the effect of a step its result.
func (p *play) answer(path string, value any, err *machine.Error) {
	p.Helper()
	for wait, e := range p.open {
		if e.Path == path {
			delete(p.open, wait)
			p.advance(machine.Input{Results: map[uint32]machine.Result{wait: {Value: value, Err: err}}})
			return
		}
	}
	require.Failf(p, "nothing waits", "%s; open: %v", path, p.open)
}

func (p *play) waits() []string {
	var paths []string
	for _, e := range p.open {
		paths = append(paths, e.Path)
	}
	return paths
}

func (p *play) completed(want any) {
	p.Helper()
	require.Equal(p, machine.Completed, p.out.Status, "%v", p.out.Err)
	got, err := json.Marshal(p.out.Value)
	require.NoError(p, err)
	expected, err := json.Marshal(want)
	require.NoError(p, err)
	require.JSONEq(p, string(expected), string(got))
	require.Empty(p, p.open, "nothing is left that waits")
}

func TestRigid(t *testing.T) {
	begin(t, `[{"kind":"rigid","id":"a","statements":[
		{"kind":"assign","name":"x","value":"input.n + 1"},
		{"kind":"emit","event":"seen","data":{"x":"{{x}}","text":"x is {{x}}"}},
		{"kind":"return","value":"x * 2"}]}]`, map[string]any{"n": int64(4)}).completed(10)
}

func TestEmit_recordsItsData(t *testing.T) {
	p := begin(t, `[{"kind":"rigid","id":"a","statements":[{"kind":"emit","event":"seen","data":{"x":"{{input.n}}","text":"x is {{input.n}}"}}]}]`, map[string]any{"n": int64(4)})
	p.completed(nil)
	require.Equal(t, map[string]any{"x": int64(4), "text": "x is 4"}, p.out.Records[1].Value)
	require.Equal(t, []string{"enter a", "emit seen", "exit a"}, p.said)
}

func TestReturn_isTheExitOfTheBlocksAroundIt(t *testing.T) {
	p := begin(t, `[{"kind":"try","id":"t","finally":[],"body":[{"kind":"if","id":"i","cases":[{"when":"true","body":[
		{"kind":"rigid","id":"r","statements":[{"kind":"return","value":"7"}]}]}]}]},
		{"kind":"debug","id":"never"}]`, nil)
	p.completed(7)
	require.Equal(t, []string{"enter t", "enter i", "enter r", "exit r", "exit i", "exit t"}, p.said)
}

func TestFail_isTheFailureOfTheExecution(t *testing.T) {
	p := begin(t, `[{"kind":"rigid","id":"a","statements":[{"kind":"fail","code":"NO_GOOD","message":"loss {{input.loss}}"}]}]`, map[string]any{"loss": 2.5})
	require.Equal(t, machine.Failed, p.out.Status)
	require.Equal(t, &machine.Error{Code: "NO_GOOD", Message: "loss 2.5", Step: "a"}, p.out.Err)
}

func TestBranches_shareNames(t *testing.T) {
	body := `[{"kind":"if","id":"choose","cases":[
		{"when":"input.n > 5","body":[{"kind":"rigid","id":"big","result_binding":"size","statements":[{"kind":"expression","expression":"'big'"}]}]}],
		"else":[{"kind":"rigid","id":"small","result_binding":"kind_of","statements":[{"kind":"expression","expression":"'small'"}]}]},
		{"kind":"match","id":"word","subject":"choose","arms":[{"values":["big"],"body":[{"kind":"rigid","id":"b","statements":[{"kind":"return","value":"size + '!'"}]}]}],
		"else":[{"kind":"rigid","id":"s","statements":[{"kind":"return","value":"small + '?'"}]}]}]`
	begin(t, body, map[string]any{"n": int64(9)}).completed("big!")
	begin(t, body, map[string]any{"n": int64(1)}).completed("small?")
}

func TestForeach_runsSomeAtATime(t *testing.T) {
	p := begin(t, `[{"kind":"foreach","id":"all","items":"input.list","var":"lr","max_concurrent":2,"collect":"train.loss",
		"body":[{"kind":"compute","id":"train","action":"train","spec":{"lr":"{{lr}}"}}]}]`, map[string]any{"list": []any{0.1, 0.2, 0.3}})
	require.ElementsMatch(t, []string{"train[0]", "train[1]"}, p.waits())
	p.answer("train[1]", map[string]any{"loss": 2.0}, nil)
	require.ElementsMatch(t, []string{"train[0]", "train[2]"}, p.waits())
	require.Equal(t, map[string]any{"lr": 0.3}, p.open[3].Spec)
	p.answer("train[2]", map[string]any{"loss": 3.0}, nil)
	p.answer("train[0]", map[string]any{"loss": 1.0}, nil)
	p.completed([]any{1.0, 2.0, 3.0})
}

func TestForeach_failsAsAWhole(t *testing.T) {
	body := `[{"kind":"foreach","id":"all","items":"[1,2]","max_concurrent":2,"fail_fast":%v,
		"body":[{"kind":"compute","id":"job","action":"job","spec":{}}]}]`
	p := begin(t, fmt.Sprintf(body, true), nil)
	p.answer("job[0]", nil, &machine.Error{Code: "JOB_FAILED", Message: "exit 1"})
	require.Equal(t, machine.Failed, p.out.Status)
	require.Equal(t, "job[0]", p.out.Err.Step)
	require.Empty(t, p.open, "the other one is given up")

	p = begin(t, fmt.Sprintf(body, false), nil)
	p.answer("job[0]", nil, &machine.Error{Code: "JOB_FAILED", Message: "exit 1"})
	require.Equal(t, machine.Waiting, p.out.Status)
	p.answer("job[1]", "fine", nil)
	require.Equal(t, machine.Failed, p.out.Status)
}

func TestWhile(t *testing.T) {
	count := `[{"kind":"rigid","id":"zero","statements":[{"kind":"assign","name":"n","value":"0"}]},
		{"kind":"while","id":"loop","when":"n < 3","max_iterations":%d,"body":[
			{"kind":"wait","id":"pause","duration":"1s"},
			{"kind":"rigid","id":"more","statements":[{"kind":"assign","name":"n","value":"n + 1"}]}]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"n"}]}]`
	p := begin(t, fmt.Sprintf(count, 10), nil)
	for range 3 {
		require.Equal(t, time.Second, p.open[p.last()].After)
		p.answer("pause", nil, nil)
	}
	p.completed(3)
	p = begin(t, fmt.Sprintf(count, 2), nil)
	p.answer("pause", nil, nil)
	p.answer("pause", nil, nil)
	require.Equal(t, machine.CodeIterationLimit, p.out.Err.Code)
}

func (p *play) last() uint32 {
	last := uint32(0)
	for wait := range p.open {
		last = max(last, wait)
	}
	return last
}

func TestParallel_joins(t *testing.T) {
	body := `[{"kind":"parallel","id":"both","join":%q,"branches":[
		{"name":"a","body":[{"kind":"compute","id":"ja","result_binding":"ra","action":"job","spec":{}}]},
		{"name":"b","body":[{"kind":"compute","id":"jb","action":"job","spec":{}}]}]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"[both.a, both.b, ra]"}]}]`
	p := begin(t, fmt.Sprintf(body, "all"), nil)
	p.answer("jb", 2, nil)
	p.answer("ja", 1, nil)
	p.completed([]any{1, 2, 1})
	p = begin(t, fmt.Sprintf(body, "any"), nil)
	p.answer("ja", 1, nil)
	p.completed([]any{1, nil, 1})
}

func TestTry_catchesAndFinishes(t *testing.T) {
	body := `[{"kind":"try","id":"t","body":[{"kind":"compute","id":"j","action":"job","spec":{}}],
		"catch":[{"kind":"rigid","id":"c","statements":[{"kind":"assign","name":"seen","value":"error.code"}]}],
		"finally":[{"kind":"rigid","id":"f","statements":[{"kind":"emit","event":"closed","data":{}}]}]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"seen"}]}]`
	p := begin(t, body, nil)
	p.answer("j", nil, &machine.Error{Code: "OOM", Message: "out of memory"})
	p.completed("OOM")
	require.Contains(t, p.said, "emit closed")
}

func TestRetry_backsOffAndGivesUp(t *testing.T) {
	p := begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{},"retry":{"max":2,"backoff":"10s","cap":"15s"}}]`, nil)
	for _, want := range []time.Duration{10 * time.Second, 15 * time.Second} {
		p.answer("j", nil, &machine.Error{Code: "NODE_LOST", Message: "gone", Retryable: true})
		require.Equal(t, want, p.open[p.last()].After)
		p.answer("j", nil, nil)
		require.Equal(t, machine.Job, p.open[p.last()].Kind)
	}
	p.answer("j", nil, &machine.Error{Code: "NODE_LOST", Message: "gone", Retryable: true})
	require.Equal(t, machine.Failed, p.out.Status)
}

func TestOnFailure(t *testing.T) {
	p := begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{},"on_failure":[{"match":["OOM"],"action":"continue",
		"body":[{"kind":"rigid","id":"note","statements":[{"kind":"assign","name":"why","value":"error.message"}]}]}]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"why"}]}]`, nil)
	p.answer("j", nil, &machine.Error{Code: "OOM", Message: "too big"})
	p.completed("too big")

	p = begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{},"on_failure":[{"action":"checkpoint"}]}]`, nil)
	p.answer("j", nil, &machine.Error{Code: "OOM", Message: "too big"})
	require.Equal(t, machine.Ask, p.open[p.last()].Kind)
	p.answer("j", map[string]any{"resolution": "retry"}, nil)
	require.Equal(t, machine.Job, p.open[p.last()].Kind)
	p.answer("j", "fine", nil)
	p.completed("fine")
}

func TestTimeout_ofABlockThatContainsOthers(t *testing.T) {
	p := begin(t, `[{"kind":"parallel","id":"both","timeout":"1m","branches":[
		{"name":"a","body":[{"kind":"compute","id":"ja","action":"job","spec":{}}]}]}]`, nil)
	require.ElementsMatch(t, []string{"both", "ja"}, p.waits())
	p.answer("both", nil, nil)
	require.Equal(t, machine.CodeTimeout, p.out.Err.Code)
	require.Empty(t, p.open)
}

func TestCheckpoint_runsTheArmOfItsAnswer(t *testing.T) {
	p := begin(t, `[{"kind":"checkpoint","id":"ask","result_binding":"answer","prompt":"Ship {{input.model}}?","options":["approve",{"id":"reject","label":"No"}],
		"on_response":[{"values":["approve"],"body":[{"kind":"rigid","id":"yes","statements":[{"kind":"return","value":"answer.resolution + ' by ' + ask.resolved_by"}]}]}]},
		{"kind":"rigid","id":"no","statements":[{"kind":"return","value":"'rejected'"}]}]`, map[string]any{"model": "m1"})
	require.Equal(t, "Ship m1?", p.open[1].Question.Prompt)
	p.answer("ask", map[string]any{"resolution": "approve", "resolved_by": "ada"}, nil)
	p.completed("approve by ada")
}

func TestCancel_runsOnCancelAndCompensates(t *testing.T) {
	p := beginModule(t, `{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[
		{"kind":"foreach","id":"each","items":"['a','b']","body":[
			{"kind":"compute","id":"j","action":"job","spec":{},"compensate":[{"kind":"rigid","id":"undo","statements":[{"kind":"emit","event":"undo","data":"{{item}} {{result}}"}]}]}]},
		{"kind":"wait","id":"w","event":"go"}],
		"on_cancel":[{"kind":"rigid","id":"stop","statements":[{"kind":"emit","event":"stopping","data":null}]}]}]}`, nil)
	p.answer("j[0]", "one", nil)
	p.answer("j[1]", "two", nil)
	require.Equal(t, []string{"w"}, p.waits())
	p.advance(machine.Input{Cancel: true})
	require.Equal(t, machine.Canceled, p.out.Status)
	require.Empty(t, p.open)
	var undone []any
	for _, r := range p.out.Records {
		if r.Kind == machine.Emitted {
			undone = append(undone, r.Value)
		}
	}
	require.Equal(t, []any{nil, "b two", "a one"}, undone)
}

func TestFuel_runsOutBetweenBlocks(t *testing.T) {
	body := `[{"kind":"rigid","id":"zero","statements":[{"kind":"assign","name":"n","value":"0"}]},
		{"kind":"while","id":"loop","when":"n < 500","max_iterations":1000,"body":[{"kind":"rigid","id":"more","statements":[{"kind":"assign","name":"n","value":"n + 1"}]}]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"n"}]}]`
	p := begin(t, body, nil)
	p.completed(500)
	whole := len(p.said)

	m, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":` + body + `}]}`))
	require.NoError(t, err)
	program, err := machine.NewProgram(m, "")
	require.NoError(t, err)
	frame, err := program.Start(nil, nil)
	require.NoError(t, err)
	q := &play{T: t, program: program, frame: frame, limits: machine.Limits{Fuel: 50, Blocks: 10_000, Effects: 10}, open: map[uint32]machine.Effect{}}
	out, err := program.Advance(frame, machine.Input{}, q.limits)
	require.NoError(t, err)
	require.Equal(t, machine.More, out.Status)
	q.advance(machine.Input{})
	q.completed(500)
	require.Len(t, q.said, whole, "the same steps, however they are cut")

	q = &play{T: t, program: program, frame: frame, limits: machine.Limits{Fuel: 50, Blocks: 100, Effects: 10}, open: map[uint32]machine.Effect{}}
	q.advance(machine.Input{})
	require.Equal(t, machine.CodeBlockLimit, q.out.Err.Code)
}

func TestFrame_thatIsTooLargeFailsTheExecution(t *testing.T) {
	p := begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{}},{"kind":"rigid","id":"big","statements":[{"kind":"assign","name":"list","value":"range(input.n).map(i, 'an item with a rather long text in it, ' + string(i))"}]}]`,
		map[string]any{"n": int64(2000)})
	p.answer("j", nil, nil)
	require.Equal(t, machine.CodeTooLarge, p.out.Err.Code)
}

func TestRetryByHand_goesOnWhereItFailed(t *testing.T) {
	body := `[{"kind":"rigid","id":"first","statements":[{"kind":"assign","name":"n","value":"1"}]},
		{"kind":"parallel","id":"both","branches":[
			{"name":"a","body":[{"kind":"compute","id":"ja","action":"job","spec":{}},{"kind":"compute","id":"ka","action":"job","spec":{"n":"{{n}}"}}]},
			{"name":"b","body":[{"kind":"compute","id":"jb","action":"job","spec":{}}]}]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"[both.a, both.b, n]"}]}]`
	p := begin(t, body, nil)
	p.answer("ja", 1, nil)
	p.answer("ka", nil, &machine.Error{Code: "JOB_FAILED", Message: "exit 1"})
	require.Equal(t, machine.Failed, p.out.Status)
	require.Empty(t, p.open)

	frame, err := p.program.Retry(p.frame, "", map[string]any{"n": int64(7)})
	require.NoError(t, err)
	p.frame = frame
	p.advance(machine.Input{})
	require.ElementsMatch(t, []string{"ka", "jb"}, p.waits(), "what was done is not done again")
	require.Equal(t, map[string]any{"n": int64(7)}, p.open[p.wait("ka")].Spec)
	p.answer("ka", 2, nil)
	p.answer("jb", 3, nil)
	p.completed([]any{2, 3, 7})
}

func (p *play) wait(path string) uint32 {
	for wait, e := range p.open {
		if e.Path == path {
			return wait
		}
	}
	return 0
}

func TestRetryByHand_fromAnEarlierStep(t *testing.T) {
	body := `[{"kind":"compute","id":"j","action":"job","spec":{}},{"kind":"rigid","id":"bad","statements":[{"kind":"fail","code":"X","message":"no"}]},{"kind":"rigid","id":"never","statements":[{"kind":"return","value":"1"}]}]`
	p := begin(t, body, nil)
	p.answer("j", 1, nil)
	require.Equal(t, machine.Failed, p.out.Status)
	_, err := p.program.Retry(p.frame, "never", nil)
	require.EqualError(t, err, `the execution has not reached a step "never" that it can be retried from; it has: bad, j`)
	p.frame, err = p.program.Retry(p.frame, "j", nil)
	require.NoError(t, err)
	p.advance(machine.Input{})
	require.Equal(t, []string{"j"}, p.waits())
}

func TestResult_thatNobodyWaitsForIsIgnored(t *testing.T) {
	p := begin(t, `[{"kind":"wait","id":"w","duration":"1h"}]`, nil)
	before := p.frame
	p.advance(machine.Input{Results: map[uint32]machine.Result{77: {Value: "stray"}}})
	require.Equal(t, machine.Waiting, p.out.Status)
	require.Equal(t, before, p.frame)
}

func TestFlowTimeout(t *testing.T) {
	p := beginModule(t, `{"schema_version":"0.1","name":"p","flows":[{"name":"main","timeout":"1h","body":[{"kind":"wait","id":"w","event":"go"}]}]}`, nil)
	p.answer("", nil, nil)
	require.Equal(t, machine.CodeTimeout, p.out.Err.Code)
	require.Empty(t, p.open)
}
