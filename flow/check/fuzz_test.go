package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

// FuzzSource reads, checks, writes and runs anything. A program without errors is the same after it was written, and runs without a
// panic.
func FuzzSource(f *testing.F) {
	for _, body := range programs {
		f.Add([]byte(inMain(body)))
	}
	examples, err := filepath.Glob("../../examples/flows/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, examples)
	for _, path := range examples {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, found := check.Source(data)
		if m == nil {
			require.Len(t, found, 1)
			require.True(t, check.Failed(found))
			return
		}
		if check.Failed(found) {
			return
		}
		once, err := m.Encode()
		require.NoError(t, err)
		again, found := check.Source(once)
		require.False(t, check.Failed(found), "%v", found)
		twice, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		for i := range again.Flows {
			run(t, again, again.Flows[i].Name)
		}
	})
}

// programs are blocks to begin with.
var programs = []string{
	`[{"kind":"if","id":"a","cases":[{"when":"input.n > 1 && has(input.x)","body":[{"kind":"wait","id":"w","duration":"1h30m"}]}],"else":[{"kind":"debug","id":"d","values":{"x":"{{input}}"}}]}]`,
	`[{"kind":"foreach","id":"f","items":"range(3)","var":"i","max_concurrent":2,"collect":"[i, index]","body":[{"kind":"compute","id":"j","action":"job","spec":{"a":["{{i}}"]}}]}]`,
	`[{"kind":"while","id":"l","when":"true","max_iterations":3,"body":[{"kind":"wait","id":"e","event":"go","timeout":5}]}]`,
	`[{"kind":"try","id":"t","body":[{"kind":"rigid","id":"r","statements":[{"kind":"fail","code":"X","message":"{{1 / 0}}"}]}],"catch":[],"finally":[{"kind":"core_call","id":"c","target":"self"}]}]`,
	`[{"kind":"checkpoint","id":"q","prompt":"?","options":["a",{"id":"b"}],"on_timeout":"resolve:b","on_response":[{"values":["a"],"body":[{"kind":"rigid","id":"r","statements":[{"kind":"return","value":"q.resolution"}]}]}]}]`,
	`[{"kind":"parallel","id":"p","join":"any","branches":[{"name":"x","body":[{"kind":"wait","id":"w","until":"'2030-01-01T00:00:00Z'"}]}]}]`,
	`[{"kind":"match","id":"m","subject":"input","arms":[{"values":[1,"a",null,[1],{"b":2}],"body":[]}],"on_failure":[{"match":["*"],"action":"checkpoint"}],"retry":{"max":1,"backoff":"1s"},"compensate":[{"kind":"debug","id":"u"}]}]`,
}

// run plays a flow for a while.
func run(t *testing.T, m *ir.Module, flow string) {
	p, err := machine.NewProgram(m, flow)
	require.NoError(t, err)
	frame, err := p.Start(map[string]any{"n": int64(2), "x": []any{1.5, "a"}}, nil)
	require.NoError(t, err)
	in := machine.Input{}
	for round := range 20 {
		out, err := p.Advance(frame, in, machine.Limits{Fuel: 1_000, Blocks: 200, Effects: 20})
		require.NoError(t, err)
		if frame = out.Frame; out.Status == machine.Failed {
			if frame, err = p.Retry(frame, "", nil); err != nil {
				return
			}
		} else if out.Status == machine.Completed || out.Status == machine.Canceled {
			return
		}
		in = machine.Input{Results: map[uint32]machine.Result{}, Cancel: round == 15}
		for i, e := range out.Effects {
			if e.Kind != machine.Timer || round%2 == 0 {
				in.Results[e.Wait] = machine.Result{Value: map[string]any{"resolution": "a", "n": int64(i)}}
			}
			if (round+i)%5 == 4 {
				in.Results[e.Wait] = machine.Result{Err: &machine.Error{Code: "X", Retryable: true}}
			}
		}
	}
}
