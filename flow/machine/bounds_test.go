package machine_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

func TestWait_hasATimeoutOfItsOwn(t *testing.T) {
	p := begin(t, `[{"kind":"wait","id":"w","duration":"2h","timeout":"1h"}]`, nil)
	require.Len(t, p.open, 2)
	for wait, e := range p.open {
		if e.After == time.Hour {
			delete(p.open, wait)
			p.advance(machine.Input{Results: map[uint32]machine.Result{wait: {}}})
			break
		}
	}
	require.Equal(t, machine.CodeTimeout, p.out.Err.Code)
	require.Empty(t, p.open)
}

func TestRetry_waitsAtLeastItsBackoff(t *testing.T) {
	p := begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{},"retry":{"max":9,"backoff":"1h"}}]`, nil)
	p.answer("j", nil, &machine.Error{Code: "NODE_LOST", Retryable: true})
	require.Equal(t, time.Hour, p.open[p.last()].After)
}

func TestRetryByHand_isForFailures(t *testing.T) {
	p := begin(t, `[{"kind":"compute","id":"j","action":"job","spec":{}}]`, nil)
	_, err := p.program.Retry(p.frame, "", nil)
	require.ErrorIs(t, err, machine.ErrNotFailed)
	p.answer("j", nil, nil)
	_, err = p.program.Retry(p.frame, "", nil)
	require.ErrorIs(t, err, machine.ErrNotFailed)
}

// A block runs its expressions at once, so all of them together are bounded.
func TestBudget_isThatOfABlock(t *testing.T) {
	statement := `{"kind":"expression","expression":"size(range(3000).map(i, i))"},`
	program := func(statements int) string {
		return `{"kind":"rigid","id":"r` + sprintf("%d", statements) + `","statements":[` + strings.TrimSuffix(strings.Repeat(statement, statements), ",") + `]}`
	}
	require.Equal(t, machine.Completed, begin(t, `[`+program(1)+`,`+program(2)+`]`, nil).out.Status, "each block has a budget of its own")
	p := begin(t, `[`+program(20)+`]`, nil)
	require.Equal(t, machine.Failed, p.out.Status)
	require.Equal(t, "BUDGET", p.out.Err.Code)

	var cases []string
	for range 20 {
		cases = append(cases, `{"when":"size(range(3000).map(i, i)) < 0","body":[]}`)
	}
	require.Equal(t, "BUDGET", begin(t, `[{"kind":"if","id":"i","cases":[`+strings.Join(cases, ",")+`]}]`, nil).out.Err.Code)

	loop := `[{"kind":"foreach","id":"f","items":"range(50)","collect":"size(range(2000).map(i, i))","body":[{"kind":"debug","id":"d"}]}]`
	require.Equal(t, machine.Completed, begin(t, loop, nil).out.Status, "a loop goes on in the next Advance")
}

// Names share their values, and the stored frame does not: it must not be made only to find that it is too large.
func TestFrame_isMeasuredBeforeItIsMade(t *testing.T) {
	m, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[
		{"kind":"foreach","id":"f","items":"range(3000)","body":[{"kind":"rigid","id":"r","statements":[{"kind":"expression","expression":"input"}]}]}]}]}`))
	require.NoError(t, err)
	program, err := machine.NewProgram(m, "")
	require.NoError(t, err)
	frame, err := program.Start(strings.Repeat("x", 50_000), nil)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := program.Advance(frame, machine.Input{}, machine.DefaultLimits)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Equal(t, machine.CodeTooLarge, out.Err.Code)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(40<<20))
}

// The effects of an Advance travel together.
func TestEffects_ofAnAdvanceAreBounded(t *testing.T) {
	m, err := ir.Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[
		{"kind":"foreach","id":"f","items":"range(200)","max_concurrent":200,"body":[{"kind":"compute","id":"j","action":"job","spec":{"text":"{{input}}"}}]}]}]}`))
	require.NoError(t, err)
	program, err := machine.NewProgram(m, "")
	require.NoError(t, err)
	frame, err := program.Start(strings.Repeat("x", 20_000), nil)
	require.NoError(t, err)
	effects := 0
	for {
		out, err := program.Advance(frame, machine.Input{}, machine.DefaultLimits)
		require.NoError(t, err)
		size := 0
		for _, e := range out.Effects {
			text, err := json.Marshal(e.Spec)
			require.NoError(t, err)
			size += len(text)
		}
		require.Less(t, size, 400_000)
		frame, effects = out.Frame, effects+len(out.Effects)
		if out.Status != machine.More {
			require.Equal(t, machine.Waiting, out.Status)
			break
		}
	}
	require.Equal(t, 200, effects)
}
