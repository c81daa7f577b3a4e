package interpreter

import (
	"encoding/json"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// jobView is a job without its configuration, which the program has given itself.
func jobView(v *fsm.View, j *work.Job) *v1.Job {
	shown := jobview.Of(v, j, false)
	shown.TrainingConfig, shown.DataConfig, shown.ResourceConfig, shown.OutputConfig = nil, nil, nil, nil
	shown.SchedulingConfig, shown.CommandConfig, shown.EvaluationConfig, shown.PastAttempts = nil, nil, nil, nil
	return shown
}

func succeeded(j *work.Job) bool { return j.State == v1.JobState_SUCCEEDED }

// newestMetrics are those of the newest checkpoint of a job; nil: there are none.
func newestMetrics(v *fsm.View, j *work.Job) map[string]any {
	var text string
	for c := range v.CheckpointsOf(j.ID) {
		if c.Metrics != "" {
			text = c.Metrics
		}
	}
	if text == "" || !json.Valid([]byte(text)) {
		return nil
	}
	metrics, _ := programs.Measured(programs.FromStruct(jobview.Metrics(text))).(map[string]any)
	return metrics
}
