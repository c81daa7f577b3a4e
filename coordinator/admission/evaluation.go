package admission

import (
	"fmt"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Bounds of an evaluation.
const (
	maxBenchmarks = 64
	maxParameters = 64
	maxParameter  = 4096
)

// reservedForEvaluations refuses what only SubmitEvaluation may set.
func reservedForEvaluations(req *v1.SubmitJobRequest) error {
	switch {
	case req.GetEvaluationConfig() != nil:
		return call.Bad("evaluation_config", "is not for jobs: an evaluation is submitted as one (POST /evaluations, mind evaluate)")
	case req.GetLabels()[work.EvaluationLabel] == work.EvaluationValue:
		return call.Bad("labels", "%s=%s is kept for evaluations: choose another value", work.EvaluationLabel, work.EvaluationValue)
	}
	return nil
}

// CheckEvaluation checks what can be told without looking at the state.
func CheckEvaluation(e *v1.EvaluationConfig) error {
	var f call.Faults
	switch {
	case e.GetJobId() == "" && e.GetModelUri() == "":
		f.Bad("job_id", "say what to score: give job_id, or model_uri")
	case e.GetJobId() == "" && e.GetCheckpointId() != "":
		f.Bad("checkpoint_id", "goes with job_id: name the job that wrote it")
	case e.GetModelUri() != "" && e.GetCheckpointId() != "":
		f.Bad("checkpoint_id", "goes instead of model_uri: only one of them can be scored")
	}
	benchmarks := e.GetBenchmarks()
	switch {
	case len(benchmarks) == 0:
		f.Bad("benchmarks", "is empty: name at least one, such as mmlu")
	case len(benchmarks) > maxBenchmarks:
		f.Bad("benchmarks", "has %d entries; at most %d are taken", len(benchmarks), maxBenchmarks)
		benchmarks = nil
	}
	f.Add(checkModelURI(e.GetModelUri()))
	seen := map[string]bool{}
	for i, b := range benchmarks {
		field := fmt.Sprintf("benchmarks[%d]", i)
		checkBenchmark(&f, field, b)
		if b.GetName() != "" && seen[b.GetName()] {
			f.Bad(field+".name", "%s is there twice: its results could not be told apart", b.GetName())
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
	case !status.ValidBenchmark(name, work.MaxBenchmarkName):
		f.Bad(field+".name", "%.64q is no name of a benchmark: 1 to %d printable ASCII characters without spaces, commas, quotes and backslashes", name, work.MaxBenchmarkName)
	}
	if b.GetNumSamples() < 0 {
		f.Bad(field+".num_samples", "%d must not be negative; 0 means all", b.GetNumSamples())
	}
	if len(b.GetParameters()) > maxParameters {
		f.Bad(field+".parameters", "has %d entries; at most %d are taken", len(b.GetParameters()), maxParameters)
	}
	for key, value := range b.GetParameters() {
		if key == "" || len(key) > maxLabelKey || len(value) > maxParameter || strings.ContainsRune(key+value, 0) {
			f.Bad(field+".parameters", "names take 1 to %d bytes, values up to %d, and neither a NUL character", maxLabelKey, maxParameter)
			break
		}
	}
	f.Add(checkURI(field+".dataset", b.GetDataset()))
}
