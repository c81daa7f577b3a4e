package evaluations

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

func TestCompared_deltasAreFromTheFirstThatHasTheMetric(t *testing.T) {
	result := func(name string, metrics map[string]any) *v1.BenchmarkResult {
		fields, err := structpb.NewStruct(metrics)
		require.NoError(t, err)
		return &v1.BenchmarkResult{Name: name, Metrics: fields}
	}
	rows := compared([]*v1.Evaluation{
		{EvaluationId: "a", Results: []*v1.BenchmarkResult{result("z", map[string]any{"f1": 1.0, "em": 2.0})}},
		{EvaluationId: "b", Results: []*v1.BenchmarkResult{result("y", map[string]any{"f1": 5.0}), {Name: "z", Error: "failed"}}},
		{EvaluationId: "c", Results: []*v1.BenchmarkResult{result("y", map[string]any{"f1": 4.0}), result("z", map[string]any{"f1": 0.5})}},
	})
	var got []string
	for _, row := range rows {
		line := row.GetBenchmark() + " " + row.GetMetric()
		for _, v := range row.GetValues() {
			switch {
			case v.Value == nil:
				line += " -"
			case v.Delta == nil:
				line += fmt.Sprintf(" %v", v.GetValue())
			default:
				line += fmt.Sprintf(" %v(%+v)", v.GetValue(), v.GetDelta())
			}
		}
		got = append(got, line)
	}
	require.Equal(t, []string{"z em 2 - -", "z f1 1 - 0.5(-0.5)", "y f1 - 5 4(-1)"}, got)
	require.Empty(t, compared([]*v1.Evaluation{{}, {}}))
}

func TestPinModel_aCheckpointThatIsGone(t *testing.T) {
	err := pinModel(fsm.New().View(), "t1", &v1.EvaluationConfig{JobId: "job_1", CheckpointId: "ckpt_zz"})
	require.Equal(t, codes.NotFound, grpcstatus.Code(call.ToStatus(err)))
}
