package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestInWords_translatesTheStatesOfJobs(t *testing.T) {
	of := func(job string, state v1.JobState_Value) v1.JobStatus_Value {
		if job == "job_2" {
			return Of(state, v1.JobPhase_EVALUATING, true)
		}
		return Of(state, v1.JobPhase_UNSPECIFIED, true)
	}
	for said, want := range map[string]string{
		"job job_1 is SUCCEEDED already: there is nothing left to cancel":    "job job_1 is COMPLETED already: there is nothing left to cancel",
		"job job_1 is RUNNING: only a paused job can be resumed":             "job job_1 is TRAINING: only a paused job can be resumed",
		"job job_2 is RUNNING: only a paused job can be resumed":             "job job_2 is EVALUATING: only a paused job can be resumed",
		"job job_1 is CANCELED: only a job that waits or runs can be paused": "job job_1 is CANCELLED: only a job that waits or runs can be paused",
		"node n1 is RUNNING":               "node n1 is RUNNING",
		"there is no job job_1":            "there is no job job_1",
		"the key \"RUNNING\" was used":     "the key \"RUNNING\" was used",
		"my_job_1 is RUNNING, as was said": "my_job_1 is RUNNING, as was said",
	} {
		require.Equal(t, want, InWords(said, of))
	}
	for number, name := range v1.JobState_Value_name {
		if number != 0 {
			require.NotContains(t, InWords("job_1 is "+name, func(string, v1.JobState_Value) v1.JobStatus_Value { return v1.JobStatus_EXPORTING }), name, "every state is known")
		}
	}
}
