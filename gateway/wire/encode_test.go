package wire

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func fullJob() *v1.Job {
	return &v1.Job{
		JobId: "job_0123456789abc", Name: "support-lora-v3", TenantId: "acme", UserId: "ann",
		Status: v1.JobStatus_TRAINING, State: v1.JobState_RUNNING, Phase: v1.JobPhase_TRAINING, Priority: 5, Queue: "default",
		Labels: map[string]string{"team": "support", "experiment": "3"},
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_LORA, BaseModel: &v1.BaseModel{ModelId: "m"}, Framework: &v1.Framework{Type: v1.FrameworkType_FSDP},
			Hyperparameters: map[string]string{"lora_r": "16"},
		},
		DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "scaidrive://acme/x"}}},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 8, GpuType: "H100", Topology: "nvlink"},
		Attempt:        1, MaxRetries: 2, Nodes: []string{"n1"}, Gpus: []string{"GPU-1", "GPU-2"},
		Progress:  &v1.JobProgress{Step: 200, TotalSteps: 1000},
		CreatedAt: timestamppb.New(time.Date(2026, 1, 31, 8, 0, 0, 123e6, time.UTC)),
		Revision:  math.MaxUint64,
	}
}

func encoded(t *testing.T, m proto.Message) map[string]any {
	t.Helper()
	text := Append(nil, m, false)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out), string(text))
	return out
}

func TestEncode_job(t *testing.T) {
	out := encoded(t, fullJob())
	require.Equal(t, "TRAINING", out["status"])
	require.Equal(t, "RUNNING", out["state"])
	require.Equal(t, "2026-01-31T08:00:00.123Z", out["created_at"])
	require.Equal(t, map[string]any{"step": 200.0, "total_steps": 1000.0}, out["progress"], "64-bit integers are numbers")
	require.Contains(t, string(Append(nil, fullJob(), false)), `"revision":18446744073709551615`)
	require.Equal(t, "nvlink", out["resource_config"].(map[string]any)["topology"])
	require.Equal(t, "LORA", out["training_config"].(map[string]any)["training_type"])
	for _, unset := range []string{"queue_position", "exit_code", "finished_at", "output_config", "error_type", "stopping"} {
		require.Contains(t, out, unset)
		require.Nil(t, out[unset], unset)
	}
	for field, want := range map[string]any{"error_message": "", "reason": "", "tasks": []any{}, "last_checkpoint_id": ""} {
		require.Equal(t, want, out[field], field)
	}
	require.Equal(t, map[string]any{}, out["resource_config"].(map[string]any)["node_selector"])
}

// Equal messages have equal bytes, whatever the order in which their maps are walked.
func TestAppend_isDeterministic(t *testing.T) {
	job := fullJob()
	for i := range 20 {
		job.Labels[strings.Repeat("x", i)] = "y"
	}
	first := string(Append(nil, job, false))
	for range 20 {
		require.Equal(t, first, string(Append(nil, job, false)))
	}
}

// Rows have the named fields and no others, with secrets hidden as always; the message around them has all of its fields.
func TestAppendRows_writesSomeFields(t *testing.T) {
	job := fullJob()
	job.CommandConfig = &v1.CommandConfig{Environment: map[string]string{"KEY": "hunter2"}}
	page := &v1.ListJobsResponse{Jobs: []*v1.Job{job, {JobId: "job_2"}}, NextPageToken: "t"}
	text := AppendRows(nil, page, "jobs", []string{"job_id", "exit_code", "command_config"}, true)
	require.NotContains(t, string(text), "hunter2")
	var out struct {
		Jobs  []map[string]any `json:"jobs"`
		Next  string           `json:"next_page_token"`
		Total *int             `json:"total_count"`
	}
	require.NoError(t, json.Unmarshal(text, &out), string(text))
	require.Equal(t, "t", out.Next)
	require.NotNil(t, out.Total)
	require.Len(t, out.Jobs, 2)
	require.Len(t, out.Jobs[0], 3)
	require.Equal(t, map[string]any{"job_id": "job_2", "exit_code": nil, "command_config": nil}, out.Jobs[1])
	require.Equal(t, string(Append(nil, page, true)), string(AppendRows(nil, page, "jobs", nil, true)), "no names: all fields")
}

func TestEncode_optionalFieldsThatAreSetToNothing(t *testing.T) {
	out := encoded(t, &v1.Job{ExitCode: proto.Int32(0), ErrorType: v1.ErrorType_OOM})
	require.Equal(t, 0.0, out["exit_code"])
	require.Equal(t, "OOM", out["error_type"])
	require.Equal(t, false, encoded(t, &v1.SchedulingConfig{Preemptible: proto.Bool(false)})["preemptible"])
	require.Nil(t, encoded(t, &v1.SchedulingConfig{})["preemptible"])
}

func TestEncode_whatJSONCannotSay(t *testing.T) {
	s, err := structpb.NewStruct(map[string]any{"loss": 0.25, "list": []any{1.0, "x", nil, true}})
	require.NoError(t, err)
	s.Fields["nan"] = structpb.NewNumberValue(math.NaN())
	s.Fields["inf"] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(math.Inf(1))}})
	out := encoded(t, &v1.GetJobMetricsResponse{Metrics: s})
	require.Equal(t, map[string]any{"loss": 0.25, "nan": nil, "inf": []any{nil}, "list": []any{1.0, "x", nil, true}}, out["metrics"])
	require.Nil(t, encoded(t, &v1.GetClusterResponse{GpuUtilization: math.NaN()})["gpu_utilization"])
}

func TestEncode_enumOfANewerCoordinator(t *testing.T) {
	require.Equal(t, "99", encoded(t, &v1.Job{State: 99})["state"])
}

func TestAppendString_readsBackTheSame(t *testing.T) {
	for _, s := range []string{
		"", "plain", `"quoted" \ back`, "line\nfeed\r\ttab", "\x00\x01\x1f\x7f", "ünïcödé 漢字 🎉", "\u2028\u2029", strings.Repeat("é", 100),
		"<script>&</script>",
	} {
		var back string
		text := AppendString(nil, s)
		require.NoError(t, json.Unmarshal(text, &back), string(text))
		require.Equal(t, s, back)
	}
	require.Equal(t, `"a\ufffdb\ufffd\ufffd"`, string(AppendString(nil, "a\xffb\xc0\xaf")))
	require.Equal(t, `"\u2028"`, string(AppendString(nil, "\u2028")))
}

func TestAppendFloat_readsBackTheSame(t *testing.T) {
	for _, f := range []float64{0, -0.5, 1, 0.1, 1e-7, 1e21, 1e300, 5e-324, math.MaxFloat64, 123456789.125, 1e20} {
		var back float64
		require.NoError(t, json.Unmarshal(numbers.AppendDouble(nil, f), &back))
		require.Equal(t, f, back)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\xff\u2028\"")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		require.NoError(t, json.Unmarshal(AppendString(nil, s), &back))
		require.Equal(t, string([]rune(s)), back, "each bad byte becomes U+FFFD")
	})
}
