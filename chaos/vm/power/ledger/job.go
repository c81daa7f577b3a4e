package ledger

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/mindcoordinator/mind/chaos/check"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Kind is what a job is for.
type Kind string

// The kinds of jobs.
const (
	// Waiting jobs never run: they are there to be there, with what was sent.
	Waiting Kind = "waiting"
	// Quick jobs run a moment and end with their code; a cut may end them, and that is their end.
	Quick Kind = "quick"
	// Stubborn jobs are the same, and are restarted until they have ended by themselves.
	Stubborn Kind = "stubborn"
	// Mortal jobs run until the cut, and are not restarted.
	Mortal Kind = "mortal"
	// Steady jobs run over several cuts, write checkpoints, and are restarted.
	Steady Kind = "steady"
)

// Job is one job as its client knows it.
type Job struct {
	Key  string
	Kind Kind
	// Code is the exit code of its program.
	Code int
	// GPUs is how many it asks for.
	GPUs int
	Body map[string]any
	// Boot is the start of the machine in which it was sent first.
	Boot int
	// ID is empty as long as the submit is not acknowledged.
	ID string
	// canceled: a cancel was acknowledged; mayCancel: one was sent.
	canceled, mayCancel bool
	// seen is what the newest read said.
	seen *view
	// canonical is what never changes, as it was first read.
	canonical string
}

// Ended says whether the newest read said so.
func (j *Job) Ended() bool { return j.seen != nil && j.seen.ended() }

// MayCancel says whether a cancel was sent, acknowledged or not.
func (j *Job) MayCancel() bool { return j.mayCancel }

// Body is the request for a job; boot is the start of the machine in which it is made.
func Body(boot int, name string, gpus int, argv ...string) map[string]any {
	args := make([]any, len(argv))
	for i, a := range argv {
		args[i] = a
	}
	return map[string]any{
		"name": name, "command_config": map[string]any{"argv": args, "cwd": "/"},
		"resource_config": map[string]any{"gpu_count": gpus}, "labels": map[string]any{"start": fmt.Sprint(boot)},
	}
}

// view is what one read said of a job.
type view struct {
	State      string `json:"state"`
	Stopping   string `json:"stopping"`
	Attempt    int    `json:"attempt"`
	Revision   uint64 `json:"revision"`
	ExitCode   *int   `json:"exit_code"`
	ErrorType  string `json:"error_type"`
	FinishedAt string `json:"finished_at"`
	Retries    struct {
		NodeLost int `json:"node_lost"`
		GPUFault int `json:"gpu_fault"`
	} `json:"retries"`
	Reason string `json:"reason"`
}

func (v *view) String() string {
	code := "none"
	if v.ExitCode != nil {
		code = fmt.Sprint(*v.ExitCode)
	}
	return fmt.Sprintf("%s %s (attempt %d, revision %d, exit code %s, finished %q)", v.State, v.ErrorType, v.Attempt, v.Revision, code, v.FinishedAt)
}

// phase is what a client can tell of the job. LOST and PREEMPTED are seen only of jobs for which that was the end.
func (v *view) phase() check.Phase {
	switch v.State {
	case "SUCCEEDED":
		return check.Succeeded
	case "FAILED", "LOST", "PREEMPTED":
		return check.Failed
	case "CANCELED":
		return check.Canceled
	}
	if v.Stopping == "CANCEL" {
		return check.Canceling
	}
	return check.Live
}

func (v *view) ended() bool {
	p := v.phase()
	return p != check.Live && p != check.Canceling
}

// fixed are the fields of a job that nothing may change.
var fixed = []string{
	"job_id", "name", "tenant_id", "user_id", "priority", "queue", "labels", "training_config", "data_config", "resource_config",
	"output_config", "scheduling_config", "command_config", "evaluation_config", "max_retries", "created_at",
}

// read takes a job of an answer apart: what was seen of it, and what must never change, in a form that can be compared.
func read(raw json.RawMessage) (id, name string, v *view, canonical string, err error) {
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return "", "", nil, "", err
	}
	v = &view{}
	if err := json.Unmarshal(raw, v); err != nil {
		return "", "", nil, "", err
	}
	part := map[string]any{}
	for _, f := range fixed {
		part[f] = all[f]
	}
	text, err := json.Marshal(part)
	id, _ = all["job_id"].(string)
	name, _ = all["name"].(string)
	return id, name, v, string(text), err
}

// lacks says what of a body that was sent an answer does not have; empty: nothing.
func lacks(sent map[string]any, canonical string) string {
	text, err := json.Marshal(sent)
	if err != nil {
		return err.Error()
	}
	var want, have any
	if err := json.Unmarshal(text, &want); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal([]byte(canonical), &have); err != nil {
		return err.Error()
	}
	return differs("", want, have)
}

func differs(path string, want, have any) string {
	fields, ok := want.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(want, have) {
			return fmt.Sprintf("%s is %v, sent was %v", strings.TrimPrefix(path, "."), have, want)
		}
		return ""
	}
	other, _ := have.(map[string]any)
	for name, value := range fields {
		if text := differs(path+"."+name, value, other[name]); text != "" {
			return text
		}
	}
	return ""
}

// worse says how a read contradicts an earlier one of the same job; empty: it does not.
func worse(before, now *view) string {
	switch {
	case before == nil:
	case now.Revision < before.Revision, now.Attempt < before.Attempt:
		return fmt.Sprintf("was %s, and is %s", before, now)
	case before.ended() && (now.State != before.State || now.ErrorType != before.ErrorType || now.Attempt != before.Attempt ||
		now.FinishedAt != before.FinishedAt || !reflect.DeepEqual(now.ExitCode, before.ExitCode)):
		return fmt.Sprintf("had ended as %s, and is %s", before, now)
	}
	return ""
}

// wrongEnd says why an ended job may not have ended so; empty: it may. cuts is how many power cuts there were since it was
// first sent, stopped that the cluster was told to stop since.
func (j *Job) wrongEnd(v *view, cuts int, stopped bool) string {
	say := func(expected string) string { return fmt.Sprintf("ended as %s, expected was %s", v, expected) }
	if v.phase() == check.Canceled && j.mayCancel {
		return ""
	}
	lost := v.ErrorType == "NODE_LOST" && v.phase() == check.Failed
	// A GPU may fail under a job, and a cluster that is told to stop drains its nodes.
	fault := v.ErrorType == "GPU_FAULT" && v.phase() == check.Failed && j.GPUs > 0 || v.ErrorType == "DRAINED" && stopped
	state, failure := "SUCCEEDED", ""
	if j.Code != 0 {
		state, failure = "FAILED", "EXIT_NONZERO"
	}
	byItself := v.State == state && v.ErrorType == failure && v.ExitCode != nil && *v.ExitCode == j.Code
	switch j.Kind {
	case Quick:
		if !byItself && !fault && !(lost && cuts > 0) {
			return say(fmt.Sprintf("exit code %d, or NODE_LOST by one of %d cuts", j.Code, cuts))
		}
	case Stubborn, Steady:
		// Attempts that saved no checkpoint, some in a row, are the end of a job.
		fruitless := v.ErrorType == "NO_PROGRESS" && v.Retries.NodeLost+v.Retries.GPUFault >= work.MaxFruitless-1
		if !byItself && !fruitless {
			return say(fmt.Sprintf("exit code %d", j.Code))
		}
	case Mortal:
		if !fault && (!lost || cuts == 0) {
			return say(fmt.Sprintf("NODE_LOST by one of %d cuts", cuts))
		}
	case Waiting:
		return say("nothing: it waits")
	}
	return ""
}
