// Package flows_test holds the examples to what they say: each is checked, and run on its answers.
package flows_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/flow/rehearse"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/gateway/wire"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

func load(t *testing.T, name string) (m *ir.Module, o rehearse.Options) {
	t.Helper()
	file := func(ending string) []byte {
		data, err := os.ReadFile(name + ending)
		require.NoError(t, err)
		return data
	}
	m, found := check.Source(file(".json"))
	require.Empty(t, found)
	var err error
	o.Input, err = rehearse.ParseValue(file(".input.json"))
	require.NoError(t, err)
	o.Answers, err = rehearse.ParseAnswers(file(".answers.json"))
	require.NoError(t, err)
	return m, o
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func TestExamples_haveTheirOutputs(t *testing.T) {
	wants := map[string]string{
		"train-evaluate-ask": `{"published": true, "job_id": "job_1", "perplexity": 4.3271}`,
		"sweep": `{"best": {"lr": 0.0001, "accuracy": 0.68, "job_id": "job_11"}, "runs": [
			{"lr": 0.00001, "accuracy": 0.61, "job_id": "job_10"}, {"lr": 0.0001, "accuracy": 0.68, "job_id": "job_11"}, {"lr": 0.001, "accuracy": 0.0}]}`,
		"retry-and-compensate": `{"job_id": "job_22", "released_by": "ada"}`,
	}
	all, err := filepath.Glob("*.input.json")
	require.NoError(t, err)
	require.Len(t, all, len(wants))
	for name, want := range wants {
		m, o := load(t, name)
		outcome, err := rehearse.Flow(m, o)
		require.NoError(t, err, name)
		require.Equal(t, "completed", outcome.Status, "%s: %v", name, outcome.Error)
		require.JSONEq(t, want, asJSON(t, outcome.Output), name)
		if name != "retry-and-compensate" { // its unstage is for the next test
			require.Empty(t, o.Answers.Unused(), name)
		}
	}
}

func TestRetryAndCompensate_undoesTheStagingWhenItIsCanceled(t *testing.T) {
	m, o := load(t, "retry-and-compensate")
	o.CancelAfter = 3 * time.Hour
	outcome, err := rehearse.Flow(m, o)
	require.NoError(t, err)
	require.Equal(t, "canceled", outcome.Status)
	var steps []string
	for _, s := range outcome.Steps {
		steps = append(steps, s.Step+" "+s.Status)
	}
	require.Equal(t, []string{
		"stage completed", "careful canceled",
		"train failed", "train/job failed", "train/job failed",
		"smaller canceled", "smaller/job canceled",
		"say completed", "unstage completed",
	}, steps)
}

// roomy is a cluster without nodes, so that admission looks at the request alone.
type roomy struct{}

func (roomy) Nodes() int                           { return 0 }
func (roomy) RoomFor(work.Shape) capacity.Room     { return capacity.Room{} }
func (roomy) Largest(work.Shape) (gpus, nodes int) { return 64, 8 }
func (roomy) GPUTypes() []string                   { return nil }
func (roomy) Levels() (all []domains.Level, innermost domains.Level, found bool) {
	return nil, domains.Level{}, false
}

// takes requires that the gateway reads a body, and that a coordinator finds no fault in it.
func takes(t *testing.T, path, action string, spec any) {
	t.Helper()
	text := []byte(asJSON(t, spec))
	if action == "evaluate" {
		body := &v1.NewEvaluation{}
		faults, ignored := wire.Decode(text, body)
		require.Empty(t, faults, path)
		require.Empty(t, ignored, path)
		require.NoError(t, admission.CheckEvaluation(&v1.EvaluationConfig{JobId: body.GetJobId(), ModelUri: body.GetModelUri(), Benchmarks: body.GetBenchmarks()}), path)
		return
	}
	body := &v1.SubmitJobRequest{}
	faults, ignored := wire.Decode(text, body)
	require.Empty(t, faults, path)
	require.Empty(t, ignored, path)
	_, err := admission.Parse(body, roomy{})
	require.NoError(t, err, path)
}

func TestExamples_haveBodiesThatAClusterTakes(t *testing.T) {
	seen := 0
	for _, name := range []string{"train-evaluate-ask", "sweep", "retry-and-compensate"} {
		m, o := load(t, name)
		for flow := range m.Flows {
			program, err := machine.NewProgram(m, m.Flows[flow].Name)
			require.NoError(t, err)
			frame, err := program.Start(o.Input, nil)
			require.NoError(t, err)
			// A job and an evaluation answer alike here: it is their bodies that count.
			result := map[string]any{"job_id": "job_1", "results": []any{map[string]any{"metrics": map[string]any{"acc": 0.5, "perplexity": 4.0}}}}
			open := map[uint32]machine.Result{}
			for {
				out, err := program.Advance(frame, machine.Input{Results: open}, machine.DefaultLimits)
				require.NoError(t, err)
				frame, open = out.Frame, map[uint32]machine.Result{}
				for _, e := range out.Effects {
					if e.Kind == machine.Timer || e.Kind == machine.Cancel {
						continue
					}
					open[e.Wait] = machine.Result{Value: result}
					if e.Kind == machine.Job {
						seen++
						takes(t, name+": "+e.Path, e.Action, e.Spec)
					}
				}
				if len(open) == 0 && out.Status != machine.More {
					break
				}
			}
		}
	}
	require.Equal(t, 2+6+2, seen)
}
