package interpreter

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
)

// step computes the next step of an execution.
func (p *Interpreter) step(ctx context.Context, v *fsm.View, e *executions.Execution) (a executionverbs.Advance) {
	a = executionverbs.Advance{Execution: e.ID, Seq: e.Seq, Frame: e.Frame, Outcome: executionverbs.Fails, Canceling: e.Cancel && !e.Canceling}
	defer func() {
		if r := recover(); r != nil {
			p.Log.Error("the interpreter panicked", "execution", e.ID.String(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			a.Effects, a.Events, a.Outcome = nil, nil, executionverbs.Fails
			a.Err = &executions.Failure{Code: "INTERNAL", Message: "the interpreter failed: this is a fault of Mind"}
		}
	}()
	version, ok := v.CoreVersion(e.Core, e.Version)
	if !ok {
		a.Err = &executions.Failure{Code: "NO_PROGRAM", Message: fmt.Sprintf("version %d of its program is not there", e.Version)}
		return a
	}
	program, err := p.Programs.Flow(version, e.Flow)
	if err != nil {
		a.Err = &executions.Failure{Code: "NO_PROGRAM", Message: err.Error()}
		return a
	}
	in := machine.Input{Cancel: a.Canceling, Results: map[uint32]machine.Result{}}
	for i := range e.Waits {
		if w := &e.Waits[i]; w.Done {
			a.Used = append(a.Used, w.ID)
			in.Results[w.ID] = p.result(v, w)
		}
	}
	out, err := program.Advance(e.Frame, in, p.limits)
	if err != nil {
		a.Err = &executions.Failure{Code: "INTERNAL", Message: err.Error()}
		return a
	}
	a.Frame, a.More = out.Frame, out.Status == machine.More
	for i := range out.Effects {
		a.Effects = append(a.Effects, p.effect(ctx, v, e, &out.Effects[i]))
	}
	for i := range out.Records {
		a.Events = append(a.Events, happening(&out.Records[i]))
	}
	switch out.Status {
	case machine.Completed:
		a.Outcome = executionverbs.Completes
		if a.Output, err = machine.EncodeValue(out.Value); err != nil || len(a.Output) > executions.MaxValue {
			a.Outcome, a.Output = executionverbs.Fails, nil
			a.Err = &executions.Failure{Code: machine.CodeTooLarge, Message: fmt.Sprintf("its output has more than %d bytes", executions.MaxValue)}
		}
	case machine.Failed:
		a.Err = failure(out.Err)
	case machine.Canceled:
		a.Outcome, a.Err = executionverbs.IsCanceled, &executions.Failure{Code: machine.CodeCanceled, Message: e.Why}
	default:
		a.Outcome = executionverbs.GoesOn
	}
	return a
}

func failure(err *machine.Error) *executions.Failure {
	if err == nil {
		return nil
	}
	return &executions.Failure{Code: err.Code, Message: err.Message, Step: err.Step, Retryable: err.Retryable}
}

// Failed is the error of a program for a failure of the state.
func Failed(f *executions.Failure) *machine.Error {
	message := f.Message
	if f.Reason != "" {
		message = words.Of(f.Reason)
	}
	return &machine.Error{Code: f.Code, Message: message, Retryable: f.Retryable}
}

var types = map[machine.RecordKind]string{
	machine.Entered: executionverbs.TypeEntered, machine.Exited: executionverbs.TypeExited,
	machine.BlockFailed: executionverbs.TypeBlockFail, machine.Retrying: executionverbs.TypeRetrying,
}

func happening(r *machine.Record) executions.Happening {
	h := executions.Happening{
		Type: types[r.Kind], Path: r.Path, Node: r.Node, Kind: r.BlockKind, Attempt: uint32(r.Attempt), Name: r.Name, Err: failure(r.Err),
	}
	if r.Kind == machine.Emitted {
		h.Type, h.Name = r.Name, ""
	}
	if r.Kind == machine.Exited || r.Kind == machine.Emitted {
		value, err := machine.EncodeValue(r.Value)
		if err == nil && len(value) <= executions.MaxEventValue {
			h.Value = value
		} else {
			h.Truncated = true
		}
	}
	return h
}

// result is the outcome of a wait, for the program.
func (p *Interpreter) result(v *fsm.View, w *executions.Wait) machine.Result {
	if w.Err != nil {
		return machine.Result{Err: Failed(w.Err)}
	}
	switch w.Kind {
	case executions.ForJob:
		return p.jobResult(v, w)
	case executions.ForDecision:
		d, ok := v.Decision(w.Decision)
		if !ok {
			return machine.Result{Err: &machine.Error{Code: "NOT_FOUND", Message: "the checkpoint is not there any more"}}
		}
		return machine.Result{Value: Answer(d)}
	case executions.ForExecution:
		if w.Started {
			return machine.Result{Value: map[string]any{"execution_id": w.Execution.String()}}
		}
	}
	value, err := machine.DecodeValue(w.Result)
	if err != nil {
		return machine.Result{Err: &machine.Error{Code: "INTERNAL", Message: err.Error()}}
	}
	return machine.Result{Value: value}
}

// Answer is a decision as the program that asked gets it.
func Answer(d *executions.Decision) map[string]any {
	answer := map[string]any{
		"checkpoint_id": d.ID.String(), "status": d.Status.String(), "resolution": d.Resolution, "decision": d.Resolution,
		"resolved_by": d.ResolvedBy, "comment": "", "data": nil,
	}
	votes := make([]any, len(d.Votes))
	for i, vote := range d.Votes {
		votes[i] = map[string]any{"user_id": vote.User, "resolution": vote.Resolution, "comment": vote.Comment}
		if vote.User == d.ResolvedBy {
			answer["comment"] = vote.Comment
			if data, err := machine.DecodeValue(vote.Data); err == nil {
				answer["data"] = data
			}
		}
	}
	answer["votes"] = votes
	return answer
}

// jobResult is a job as REST shows it; an evaluation, if it is one. A job that did not succeed is a failure with the code of its error.
func (p *Interpreter) jobResult(v *fsm.View, w *executions.Wait) machine.Result {
	j, ok := v.Find(w.Job)
	if !ok {
		return machine.Result{Value: map[string]any{"job_id": w.Job.String(), "state": w.State.String()}}
	}
	value := programs.OfMessage(jobView(v, j))
	if j.Evaluation() {
		value = programs.OfMessage(p.Evaluations.Show(v, j))
		results, _ := value["results"].([]any)
		for _, r := range results {
			if result, ok := r.(map[string]any); ok {
				result["metrics"] = programs.Measured(result["metrics"])
			}
		}
	} else if metrics := newestMetrics(v, j); metrics != nil {
		value["metrics"] = metrics
	}
	if w.Started || !j.Terminal() || succeeded(j) {
		return machine.Result{Value: value}
	}
	code := j.ErrorType.String()
	if j.ErrorType == 0 {
		code = "JOB_" + j.State.String()
	}
	return machine.Result{Err: &machine.Error{
		Code: code, Message: fmt.Sprintf("the job %s is %s: %s", j.ID, j.State, words.Of(j.Reason)), Retryable: true,
	}}
}
