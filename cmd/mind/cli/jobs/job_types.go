package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// Job holds the fields of a job that the tables show; -o json shows all fields.
type Job struct {
	ID             string     `json:"job_id"`
	Name           string     `json:"name"`
	User           string     `json:"user_id"`
	Status         string     `json:"status"`
	Priority       int        `json:"priority"`
	Queue          string     `json:"queue"`
	QueuePosition  *int       `json:"queue_position"`
	Held           bool       `json:"held"`
	StartsAt       *time.Time `json:"estimated_start_at"`
	ReservedAt     *time.Time `json:"reserved_start_at"`
	ReservedOn     []string   `json:"reserved_nodes"`
	Attempt        int        `json:"attempt"`
	ExitCode       *int       `json:"exit_code"`
	ErrorType      string     `json:"error_type"`
	ErrorMessage   string     `json:"error_message"`
	Reason         string     `json:"reason"`
	Nodes          []string   `json:"nodes"`
	GPUs           []string   `json:"gpus"`
	LastCheckpoint string     `json:"last_checkpoint_id"`
	NotifiedAt     *time.Time `json:"notified_at"`
	NotifyError    string     `json:"notify_error"`
	RequestDropped bool       `json:"request_dropped"`
	MaxRetries     int        `json:"max_retries"`
	Stopping       string     `json:"stopping"`
	CreatedAt      *time.Time `json:"created_at"`
	StartedAt      *time.Time `json:"started_at"`
	FinishedAt     *time.Time `json:"finished_at"`
	Retries        retries    `json:"retries"`
	Past           []attempt  `json:"past_attempts"`
	Array          *array     `json:"array"`
	Progress       struct {
		Step       rest.Number `json:"step"`
		TotalSteps rest.Number `json:"total_steps"`
	} `json:"progress"`
	Resources struct {
		GPUs    rest.Number `json:"gpu_count"`
		GPUType string      `json:"gpu_type"`
		Nodes   rest.Number `json:"node_count"`
		CPUs    rest.Number `json:"cpu_count"`
		Share   float64     `json:"gpu_fraction"`
	} `json:"resource_config"`
	Command struct {
		Argv    []string `json:"argv"`
		Command string   `json:"command"`
		Cwd     string   `json:"cwd"`
		Upload  string   `json:"upload"`
	} `json:"command_config"`
}

// retries has the numbers of attempts that were followed by another one, by the cause of their end.
type retries struct {
	NodeLost     int `json:"node_lost"`
	GPUFault     int `json:"gpu_fault"`
	LaunchFailed int `json:"launch_failed"`
	DataFetch    int `json:"data_fetch"`
	Exit         int `json:"exit"`
	Preempted    int `json:"preempted"`
	Drained      int `json:"drained"`
}

// attempt is an attempt that has ended.
type attempt struct {
	Attempt    int        `json:"attempt"`
	Nodes      []string   `json:"nodes"`
	ExitCode   *int       `json:"exit_code"`
	ErrorType  string     `json:"error_type"`
	Reason     string     `json:"reason"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	FailedNode string     `json:"failed_node"`
}

// retried formats how often the job was restarted, and why; empty if never.
func (j *Job) retried() string {
	r := &j.Retries
	var causes []string
	free := r.NodeLost + r.GPUFault + r.LaunchFailed + r.DataFetch + r.Preempted + r.Drained
	for _, c := range []struct {
		name string
		n    int
	}{
		{"node lost", r.NodeLost},
		{"GPU fault", r.GPUFault},
		{"launch failed", r.LaunchFailed},
		{"data fetch", r.DataFetch},
		{"preempted", r.Preempted},
		{"drained", r.Drained},
	} {
		if c.n > 0 {
			causes = append(causes, fmt.Sprintf("%s %d", c.name, c.n))
		}
	}
	if r.Exit == 0 && free == 0 && j.MaxRetries == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d", r.Exit, j.MaxRetries)
	if free > 0 {
		text += fmt.Sprintf("; %d free (%s)", free, strings.Join(causes, ", "))
	}
	return text
}

// Over reports whether the job has ended for good.
func (j *Job) Over() bool {
	switch j.Status {
	case "COMPLETED", "FAILED", "CANCELLED":
		return true
	case "PREEMPTED":
		return j.FinishedAt != nil
	}
	return false
}

// Exit returns the error with the exit code for `submit --wait`.
func (j *Job) Exit() error {
	switch {
	case j.Status == "COMPLETED":
		return nil
	case j.Status == "CANCELLED":
		return exit.With(exit.NoResult, fmt.Errorf("%s was canceled%s", j.ID, render.Because(j.Reason)))
	case j.Status == "PREEMPTED", j.ErrorType == "NODE_LOST":
		return exit.With(exit.NoResult, fmt.Errorf("%s was lost%s: run it again with `mind retry %s`", j.ID, render.Because(j.ErrorMessage), j.ID))
	}
	logs := "`mind logs " + j.ID + "`"
	if j.Array != nil {
		logs = "`mind job " + j.ID + " --tasks --status FAILED`"
	}
	code := exit.Failed
	if j.ExitCode != nil && *j.ExitCode > 0 && *j.ExitCode < 256 {
		code = *j.ExitCode
	}
	return exit.With(code, fmt.Errorf("%s failed: %s%s; see %s", j.ID, j.ErrorType, render.Because(j.ErrorMessage), logs))
}

// GPUsWanted formats the requested GPUs of the job, such as 8xH100.
func (j *Job) GPUsWanted() string {
	if j.Resources.Share > 0 {
		return fmt.Sprintf("%g %s", j.Resources.Share, j.Resources.GPUType)
	}
	if j.Resources.GPUs == 0 {
		return "-"
	}
	if j.Resources.GPUType == "" {
		return fmt.Sprint(j.Resources.GPUs)
	}
	return fmt.Sprintf("%dx%s", j.Resources.GPUs, j.Resources.GPUType)
}

// Steps formats the progress of the job, such as 120/1000; empty if the job does not report it. For an array it is the
// number of elements that are over.
func (j *Job) Steps() string {
	switch {
	case j.Array != nil:
		return fmt.Sprintf("%d/%d", j.Array.over(), j.Array.End-j.Array.Start+1)
	case j.Progress.TotalSteps > 0:
		return fmt.Sprintf("%d/%d", j.Progress.Step, j.Progress.TotalSteps)
	case j.Progress.Step > 0:
		return fmt.Sprint(j.Progress.Step)
	}
	return ""
}

// Why returns the most useful reason for the job's status.
func (j *Job) Why() string {
	if j.Status == "FAILED" {
		if j.ErrorMessage != "" {
			return j.ErrorType + ": " + j.ErrorMessage
		}
		return j.ErrorType
	}
	return j.Reason
}
