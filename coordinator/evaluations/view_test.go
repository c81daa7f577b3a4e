package evaluations

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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

func TestCompared_saysWhatIsNoise(t *testing.T) {
	scored := func(metrics map[string]any) *v1.Evaluation {
		fields, err := structpb.NewStruct(metrics)
		require.NoError(t, err)
		return &v1.Evaluation{Results: []*v1.BenchmarkResult{{Name: "mmlu", Metrics: fields}}}
	}
	for name, tt := range map[string]struct {
		a, b map[string]any
		want *bool
	}{
		"larger":                  {map[string]any{"acc": 0.5, "acc_stderr": 0.03}, map[string]any{"acc": 0.6, "acc_stderr": 0.04}, proto.Bool(true)},
		"smaller":                 {map[string]any{"acc": 0.5, "acc_stderr": 0.03}, map[string]any{"acc": 0.597, "acc_stderr": 0.04}, proto.Bool(false)},
		"larger and less":         {map[string]any{"acc": 0.6, "acc_stderr": 0.03}, map[string]any{"acc": 0.5, "acc_stderr": 0.04}, proto.Bool(true)},
		"the same, without doubt": {map[string]any{"acc": 1.0, "acc_stderr": 0.0}, map[string]any{"acc": 1.0, "acc_stderr": 0.0}, proto.Bool(false)},
		"one error is not known":  {map[string]any{"acc": 0.5}, map[string]any{"acc": 0.9, "acc_stderr": 0.01}, nil},
		"an error that is none":   {map[string]any{"acc": 0.5, "acc_stderr": -1.0}, map[string]any{"acc": 0.9, "acc_stderr": 0.01}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			row := compared([]*v1.Evaluation{scored(tt.a), scored(tt.b)})[0]
			require.Equal(t, "acc", row.GetMetric())
			require.Nil(t, row.GetValues()[0].BeyondNoise)
			require.Equal(t, tt.want, row.GetValues()[1].BeyondNoise)
		})
	}
}

func TestPinModel_aCheckpointThatIsGone(t *testing.T) {
	err := pinModel(fsm.New().View(), "t1", &v1.EvaluationConfig{JobId: "job_1", CheckpointId: "ckpt_zz"})
	require.Equal(t, codes.NotFound, grpcstatus.Code(call.ToStatus(err)))
}
