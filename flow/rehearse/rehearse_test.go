package rehearse_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// module makes a program of flows: their names and bodies in turn.
func module(t *testing.T, flows ...string) *ir.Module {
	t.Helper()
	var all []json.RawMessage
	for i := 0; i < len(flows); i += 2 {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"name": %q, "body": %s}`, flows[i], flows[i+1])))
	}
	text, err := json.Marshal(map[string]any{"schema_version": "0.1", "name": "p", "flows": all})
	require.NoError(t, err)
	m, found := check.Source(text)
	require.False(t, check.Failed(found), "%v", found)
	return m
}

func answers(t *testing.T, text string) *rehearse.Answers {
	t.Helper()
	a, err := rehearse.ParseAnswers([]byte(text))
	require.NoError(t, err)
	return a
}

// play rehearses a program, and returns how each step ended and when.
func play(t *testing.T, m *ir.Module, o rehearse.Options) (*rehearse.Outcome, []string) {
	t.Helper()
	outcome, err := rehearse.Flow(m, o)
	require.NoError(t, err)
	var steps []string
	for _, s := range outcome.Steps {
		steps = append(steps, fmt.Sprintf("%s %s at %s", s.Step, s.Status, time.Duration(s.Ended)))
	}
	return outcome, steps
}

func TestTimers_fireInTheOrderOfTheirTimes(t *testing.T) {
	m := module(t, "main", `[{"kind":"parallel","id":"all","branches":[
		{"name":"a","body":[{"kind":"wait","id":"late","duration":"2h"},{"kind":"wait","id":"later","duration":"1h"}]},
		{"name":"b","body":[{"kind":"wait","id":"early","duration":"1h"},{"kind":"wait","id":"same","duration":"2h"}]},
		{"name":"c","body":[{"kind":"wait","id":"noon","until":"'2030-01-01T12:00:00Z'"}]}]}]`)
	_, steps := play(t, m, rehearse.Options{Now: time.Date(2030, 1, 1, 11, 30, 0, 0, time.UTC)})
	require.Equal(t, []string{
		"all completed at 3h0m0s", "late completed at 2h0m0s", "early completed at 1h0m0s", "noon completed at 30m0s", "same completed at 3h0m0s", "later completed at 3h0m0s",
	}, steps)
}

func TestAnswers_ofIterations(t *testing.T) {
	m := module(t, "main", `[{"kind":"foreach","id":"each","items":"range(4)","body":[{"kind":"compute","id":"job","action":"job","spec":{}}]}]`)
	for text, want := range map[string]string{
		`{"job": 1}`:                      `[1, 1, 1, 1]`,
		`{"job": [1, 2, 3, 4]}`:           `[1, 2, 3, 4]`,
		`{"job": [1, 2, 3], "job[1]": 9}`: `[1, 9, 2, 3]`,
		`{"job": {"after": "1s", "result": {"error": {"code": "x"}}}}`: `[{"error": {"code": "x"}}, {"error": {"code": "x"}}, {"error": {"code": "x"}}, {"error": {"code": "x"}}]`,
	} {
		outcome, _ := play(t, m, rehearse.Options{Answers: answers(t, text)})
		got, err := json.Marshal(outcome.Output)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), text)
	}
	_, err := rehearse.Flow(m, rehearse.Options{Answers: answers(t, `{"job": [1]}`)})
	require.EqualError(t, err, `the step job[1] waits for the end of a job (job), and the answers have only 1 for it, and it asks once more: `+
		`add {"job_id":"job_1","status":"COMPLETED"} to the list of "job"`)
	a := answers(t, `{"job": [1, 2, 3, 4, 5], "each": 1}`)
	play(t, m, rehearse.Options{Answers: a})
	require.Equal(t, []string{"each", "job"}, a.Unused())
}

func TestDecision_thatNobodyMakes(t *testing.T) {
	for onTimeout, want := range map[string]string{
		``:                           `failed EXPIRED: nobody answered within 1h0m0s at 1h0m0s`,
		`,"on_timeout":"continue"`:   `completed null at 1h0m0s`,
		`,"on_timeout":"resolve:no"`: `completed {"resolution":"no"} at 1h0m0s`,
		`,"on_timeout":"escalate","escalation_target":"user:boss"`: `failed EXPIRED: nobody answered within 1h0m0s at 2h0m0s`,
	} {
		m := module(t, "main", `[{"kind":"checkpoint","id":"ask","prompt":"?","options":["yes","no"],"timeout":"1h"`+onTimeout+`}]`)
		var escalated []string
		outcome, _ := play(t, m, rehearse.Options{Answers: answers(t, `{"ask": {"timeout": true}}`), Watch: func(h rehearse.Happening) {
			if h.What == rehearse.Escalated {
				escalated = append(escalated, h.Name)
			}
		}})
		text, err := json.Marshal(outcome.Output)
		require.NoError(t, err)
		got := fmt.Sprintf("%s %s", outcome.Status, text)
		if outcome.Error != nil {
			got = fmt.Sprintf("%s %v", outcome.Status, outcome.Error)
		}
		require.Equal(t, want, fmt.Sprintf("%s at %s", got, time.Duration(outcome.Steps[0].Ended)))
		if strings.Contains(onTimeout, "escalate") {
			require.Equal(t, []string{"user:boss"}, escalated)
		} else {
			require.Empty(t, escalated)
		}
	}
	m := module(t, "main", `[{"kind":"checkpoint","id":"ask","prompt":"?","timeout":"1h","on_timeout":"escalate","escalation_target":"user:boss"}]`)
	outcome, _ := play(t, m, rehearse.Options{Answers: answers(t, `{"ask": [{"timeout": true}, {"resolution": "fine"}]}`)})
	require.Equal(t, map[string]any{"resolution": "fine"}, outcome.Output, "the next answer is that of the escalation target")
}

func TestAnswer_thatIsLaterThanTheTimeout(t *testing.T) {
	m := module(t, "main", `[{"kind":"wait","id":"w","event":"go","timeout":"1h","on_failure":[{"match":["TIMEOUT"],"action":"continue"}]}]`)
	_, steps := play(t, m, rehearse.Options{Answers: answers(t, `{"w": {"after": "2h", "result": 1}}`)})
	require.Equal(t, []string{"w failed at 1h0m0s"}, steps)
}

// Time stands still while an answer is missing: no timeout may hide that.
func TestMissing_isFoundBeforeATimerFires(t *testing.T) {
	m := module(t, "main", `[{"kind":"parallel","id":"both","timeout":"1m","branches":[
		{"name":"a","body":[{"kind":"wait","id":"nap","duration":"1s"}]},
		{"name":"b","body":[{"kind":"core_call","id":"other","target":"scorer"}]}]}]`)
	_, err := rehearse.Flow(m, rehearse.Options{})
	require.EqualError(t, err, `the step other waits for a call of the Core scorer, and the answers have none for it: add "other": {}`)
}

func TestCall_ofTheSameProgram(t *testing.T) {
	m := module(t,
		"main", `[{"kind":"foreach","id":"each","items":"[1,2]","max_concurrent":2,"body":[
			{"kind":"core_call","id":"sub","target":"self","flow":"sub","input_bindings":{"n":"item"}}]}]`,
		"sub", `[{"kind":"compute","id":"job","action":"job","spec":{}},{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"job + input.n"}]}]`)
	outcome, _ := play(t, m, rehearse.Options{Answers: answers(t, `{"sub/job": 10, "sub[1]/job": 20}`)})
	require.Equal(t, []any{int64(11), int64(22)}, outcome.Output)

	outcome, steps := play(t, m, rehearse.Options{Answers: answers(t, `{"sub[0]/job": {"after": "1h", "error": {"code": "OOM"}}, "sub[1]/job": {"after": "2h", "result": 1}}`)})
	require.Equal(t, "failed", outcome.Status)
	require.Equal(t, "sub[0]/job", outcome.Error.Step)
	require.Contains(t, steps, "sub[1]/job canceled at 1h0m0s", "the other call is given up, and what it runs")
}

func TestCall_isBounded(t *testing.T) {
	m := module(t, "main", `[{"kind":"core_call","id":"again","target":"self"}]`)
	outcome, steps := play(t, m, rehearse.Options{})
	require.Equal(t, rehearse.CodeCallDepth, outcome.Error.Code)
	require.Len(t, steps, 1+8)
}

func TestCall_thatIsNotWaitedFor(t *testing.T) {
	m := module(t,
		"main", `[{"kind":"core_call","id":"sub","target":"self","flow":"sub","is_async":true},{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"sub.execution_id"}]}]`,
		"sub", `[{"kind":"wait","id":"nap","duration":"1h"},{"kind":"rigid","id":"bad","statements":[{"kind":"fail","code":"X"}]}]`)
	outcome, steps := play(t, m, rehearse.Options{})
	require.Equal(t, "exec_2", outcome.Output)
	require.Equal(t, "completed", outcome.Status, "its failure is its own")
	require.Contains(t, steps, "sub/bad failed at 1h0m0s")
}

func TestFailure_asksWithAPathOfItsOwn(t *testing.T) {
	m := module(t, "main", `[{"kind":"compute","id":"job","action":"job","spec":{},"on_failure":[{"action":"checkpoint"}]}]`)
	outcome, _ := play(t, m, rehearse.Options{Answers: answers(t, `{"job": [{"error": {"code": "OOM"}}, 7], "job:failure": {"resolution": "retry"}}`)})
	require.Equal(t, int64(7), outcome.Output)
	_, err := rehearse.Flow(m, rehearse.Options{Answers: answers(t, `{"job": {"error": {"code": "OOM", "message": "no memory"}}}`)})
	require.EqualError(t, err, `the step job:failure waits for a decision (The step job failed: no memory. Try it again? retry or continue or fail), `+
		`and the answers have none for it: add "job:failure": {"resolution":"retry"}`)
}

func TestJobControl_needsNoAnswer(t *testing.T) {
	m := module(t, "main", `[{"kind":"compute","id":"stop","action":"cancel","job":"job_1"}]`)
	outcome, _ := play(t, m, rehearse.Options{})
	require.Equal(t, "completed", outcome.Status)
}

func TestAnswers_thatAreWrong(t *testing.T) {
	for text, says := range map[string]string{
		`[]`:                               "answers have to be an object",
		`{`:                                "this is no JSON: unexpected EOF",
		`{} {}`:                            "this is no JSON: there is more after its end",
		`{"a": {"after": "soon"}}`:         `the answers for a: after: "soon" is no time span`,
		`{"a": {"error": {"message": 1}}}`: "the answers for a: an error has a code",
	} {
		_, err := rehearse.ParseAnswers([]byte(text))
		require.ErrorContains(t, err, says, text)
	}
}
