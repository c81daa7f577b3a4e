package admission

import (
	"fmt"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/results"
)

// Limits of an evaluation.
const (
	maxBenchmarks = 64
	maxParameters = 64
	maxParameter  = 4096
)

// reservedForEvaluations refuses fields that only SubmitEvaluation may set.
func reservedForEvaluations(req *v1.SubmitJobRequest) error {
	switch {
	case req.GetEvaluationConfig() != nil:
		return call.Bad("evaluation_config", "is not allowed in jobs: submit an evaluation instead (POST /evaluations, mind evaluate)")
	case req.GetLabels()[work.EvaluationLabel] == work.EvaluationValue:
		return call.Bad("labels", "%s=%s is reserved for evaluations: choose another value", work.EvaluationLabel, work.EvaluationValue)
	}
	return nil
}

// CheckEvaluation makes the checks of an evaluation that do not need the state.
func CheckEvaluation(e *v1.EvaluationConfig) error {
	var f call.Faults
	switch {
	case e.GetJobId() == "" && e.GetModelUri() == "":
		f.Bad("job_id", "say what to score: give job_id, or model_uri")
	case e.GetJobId() == "" && e.GetCheckpointId() != "":
		f.Bad("checkpoint_id", "needs job_id: give the job that wrote it")
	case e.GetModelUri() != "" && e.GetCheckpointId() != "":
		f.Bad("checkpoint_id", "cannot be combined with model_uri: give only one of them")
	}
	benchmarks := e.GetBenchmarks()
	switch {
	case len(benchmarks) == 0:
		f.Bad("benchmarks", "is empty: give at least one, such as mmlu")
	case len(benchmarks) > maxBenchmarks:
		f.Bad("benchmarks", "has %d entries; at most %d are allowed", len(benchmarks), maxBenchmarks)
		benchmarks = nil
	}
	f.Add(checkModelURI(e.GetModelUri()))
	seen := map[string]bool{}
	for i, b := range benchmarks {
		field := fmt.Sprintf("benchmarks[%d]", i)
		checkBenchmark(&f, field, b)
		if b.GetName() != "" && seen[b.GetName()] {
			f.Bad(field+".name", "%s is given twice: its results could not be distinguished", b.GetName())
		}
		seen[b.GetName()] = true
	}
	return f.Err()
}

func checkBenchmark(f *call.Faults, field string, b *v1.Benchmark) {
	name := b.GetName()
	switch {
	case name == "":
		f.Bad(field+".name", "is required: the benchmark, such as mmlu")
	case !status.ValidBenchmark(name, results.MaxBenchmarkName):
		f.Bad(field+".name", "%.64q is not a valid name of a benchmark: 1 to %d printable ASCII characters without spaces, commas, quotes and backslashes", name, results.MaxBenchmarkName)
	}
	if b.GetNumSamples() < 0 {
		f.Bad(field+".num_samples", "%d must not be negative; 0 means all", b.GetNumSamples())
	}
	if len(b.GetParameters()) > maxParameters {
		f.Bad(field+".parameters", "has %d entries; at most %d are allowed", len(b.GetParameters()), maxParameters)
	}
	for key, value := range b.GetParameters() {
		if key == "" || len(key) > maxLabelKey || len(value) > maxParameter || strings.ContainsRune(key+value, 0) {
			f.Bad(field+".parameters", "names must have 1 to %d bytes, values at most %d, and neither may contain a NUL character", maxLabelKey, maxParameter)
			break
		}
	}
	f.Add(checkURI(field+".dataset", b.GetDataset()))
}
