package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"google.golang.org/protobuf/proto"
)

// A program computes with the numbers that the caller wrote: 1.0 is a double, and an integer keeps all its digits.
func TestCores_numbersKeepTheirKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "halves", `[{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"[input.f / 2, input.n, input.i / 2, type(input.f)]"}]}]`)
		input := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"f": numbers.Double(1), "n": numbers.Int(9007199254740993), "i": numbers.Int(3),
		}})
		got, err := c.cores(at).InvokeCore(c.ctx("t1", ""), &v1.InvokeCoreRequest{CoreId: "halves", Input: input, WaitSeconds: proto.Int32(30)})
		require.NoError(t, err)
		output := got.GetExecution().GetOutput().GetListValue().GetValues()
		require.Len(t, output, 4)
		require.Equal(t, []any{0.5, int64(9007199254740993), int64(1)}, []any{numbers.Of(output[0]), numbers.Of(output[1]), numbers.Of(output[2])})
		require.Equal(t, "double", output[3].GetStringValue())
	})
}

// The job of a program has the numbers of the program.
func TestCores_jobsHaveTheNumbersOfTheirProgram(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "trains", `[{"kind":"compute","id":"train","action":"train","wait":"none","spec":{"name":"n","training_config":{"training_type":"SFT",
			"base_model":{"model_id":"/srv/m"},"framework":{"type":"CUSTOM","custom_script_path":"/srv/t.py"}},"resource_config":{"gpu_count":1},
			"data_config":{"sources":[{"path":"/srv/d","filters":{"id":"{{input.id}}","lit":9007199254740993,"f":1.0}}]}}}]`)
		input := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"id": numbers.Int(9007199254740995)}})
		got, err := c.cores(at).InvokeCore(c.ctx("t1", ""), &v1.InvokeCoreRequest{CoreId: "trains", Input: input, WaitSeconds: proto.Int32(30)})
		require.NoError(t, err)
		require.Equal(t, "completed", got.GetExecution().GetStatus(), got.GetExecution().GetError())
		list, err := c.jobs(at).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{PageSize: 10})
		require.NoError(t, err)
		job, err := c.jobs(at).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: list.GetJobs()[0].GetJobId()})
		require.NoError(t, err)
		text, err := numbers.Marshal(job.GetJob().GetDataConfig().GetSources()[0].GetFilters())
		require.NoError(t, err)
		require.Equal(t, `{"f":1.0,"id":9007199254740995,"lit":9007199254740993}`, string(text))
	})
}
