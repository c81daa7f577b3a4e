package ledger

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/mindcoordinator/mind/chaos/check"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Kind is the purpose of a job.
type Kind string

// The kinds of jobs.
const (
	// Waiting jobs never run: they must stay in the state as they were submitted.
	Waiting Kind = "waiting"
	// Quick jobs run for a moment and end with their code; a cut may end them for good.
	Quick Kind = "quick"
	// Stubborn jobs are the same, but are restarted until they end by themselves.
	Stubborn Kind = "stubborn"
	// Mortal jobs run until the cut, and are not restarted.
	Mortal Kind = "mortal"
	// Steady jobs run over several cuts, write checkpoints, and are restarted.
	Steady Kind = "steady"
)

// Job is a job with its client's knowledge.
type Job struct {
	Key  string
	Kind Kind
	// Code is the exit code of its program.
	Code int
	// GPUs is the number of GPUs that it requests.
	GPUs int
	Body map[string]any
	// Boot is the start of the machine in which it was first submitted.
	Boot int
	// ID is empty as long as the submit is not acknowledged.
	ID string
	// canceled: a cancel was acknowledged; mayCancel: one was sent.
	canceled, mayCancel bool
	// seen is the result of the newest read.
	seen *view
	// canonical has the fields that never change, from the first read.
	canonical string
}

// Ended reports whether the job had ended at the newest read.
func (j *Job) Ended() bool { return j.seen != nil && j.seen.ended() }

// MayCancel reports whether a cancel was sent, acknowledged or not.
func (j *Job) MayCancel() bool { return j.mayCancel }

// Body returns the request for a job; boot is the start of the machine in which it is made.
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

// view has the changing fields of a job from one read.
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

// phase returns the phase of the job as far as a client can tell. LOST and PREEMPTED are only seen as final states.
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

// fixed are the fields of a job that must never change.
var fixed = []string{
	"job_id", "name", "tenant_id", "user_id", "priority", "queue", "labels", "training_config", "data_config", "resource_config",
	"output_config", "scheduling_config", "command_config", "evaluation_config", "max_retries", "created_at",
}

// read parses a job in an answer. It returns the changing fields as a view, and the fields that must never change in a
// comparable form.
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

// lacks returns which field of a submitted body is missing or different in an answer; empty: none.
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

// worse returns how a read contradicts an earlier one of the same job; empty: it does not.
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

// wrongEnd returns the reason why a job must not have ended like this; empty: it may. cuts is the number of power cuts
// since it was first submitted; stopped: the cluster was told to stop since then.
func (j *Job) wrongEnd(v *view, cuts int, stopped bool) string {
	say := func(expected string) string { return fmt.Sprintf("ended as %s, expected was %s", v, expected) }
	if v.phase() == check.Canceled && j.mayCancel {
		return ""
	}
	lost := v.ErrorType == "NODE_LOST" && v.phase() == check.Failed
	// A GPU of a job may fail, and a cluster that is told to stop drains its nodes.
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
		// Several attempts in a row without a checkpoint end a job.
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
