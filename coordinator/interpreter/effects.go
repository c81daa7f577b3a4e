package interpreter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// ExecutionLabel and StepLabel are the labels of jobs that executions submit.
const (
	ExecutionLabel = "execution"
	StepLabel      = "step"
)

// effect translates an effect of a program into one of the state. One that cannot be tried is a failure of its step.
func (p *Interpreter) effect(ctx context.Context, v *fsm.View, e *executions.Execution, f *machine.Effect) executionverbs.Effect {
	out := executionverbs.Effect{Wait: f.Wait, Path: f.Path, Node: f.Node, Timeout: int64(f.Timeout)}
	var err error
	switch f.Kind {
	case machine.Cancel:
		out.Cancel = true
	case machine.Timer:
		out.Timer, out.After, out.At = true, int64(f.After), f.At
	case machine.Event:
		out.Event = f.Name
	case machine.Job:
		out.Until = map[string]executionverbs.Until{"start": executionverbs.UntilStart, "none": executionverbs.UntilSubmitted}[f.Until]
		out.Job, err = p.job(ctx, v, e, f)
	case machine.JobControl:
		out.Control, err = control(f)
	case machine.Ask:
		out.Ask, err = p.question(v, e, f.Question)
	case machine.Call:
		out.Async = f.Async
		out.Call, err = p.call(v, e, f)
	}
	if err != nil {
		out.Job, out.Control, out.Ask, out.Call = nil, nil, nil, nil
		out.Err = &executions.Failure{Code: "INVALID", Message: err.Error()}
		var f *call.Failure
		if errors.As(call.ToStatus(err), &f) {
			out.Err.Message = f.Message
		}
	}
	return out
}

// job makes a job of the specification of a block, in the name of the user who started the execution.
func (p *Interpreter) job(ctx context.Context, v *fsm.View, e *executions.Execution, f *machine.Effect) (*jobverbs.NewJob, error) {
	spec, ok := f.Spec.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the spec of %s has to be an object: the body of the REST request of the job", f.Path)
	}
	ctx = call.With(ctx, &call.Call{Tenant: e.Tenant, User: e.User, RequestID: "execution/" + e.ID.String(), UpToDate: true})
	if f.Action == "evaluate" {
		var body v1.NewEvaluation
		if err := read(spec, &body); err != nil {
			return nil, err
		}
		job, err := p.Evaluations.NewJob(ctx, v, &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{
				JobId: body.GetJobId(), ModelUri: body.GetModelUri(), CheckpointId: body.GetCheckpointId(), Benchmarks: body.GetBenchmarks(),
			},
			Name: body.GetName(), ResourceConfig: body.GetResourceConfig(), SchedulingConfig: body.GetSchedulingConfig(),
			Labels: labeled(body.GetLabels(), e, f),
		})
		return &job, err
	}
	var req v1.SubmitJobRequest
	if err := read(spec, &req); err != nil {
		return nil, err
	}
	switch {
	case f.Action == "train" && req.GetTrainingConfig() == nil:
		return nil, fmt.Errorf("the spec of %s has no training_config: use the action job for a command", f.Path)
	case req.GetName() == "":
		req.Name = f.Path
	}
	req.Labels = labeled(req.GetLabels(), e, f)
	job, err := p.Admission.Job(ctx, &req, "")
	return &job, err
}

func labeled(labels map[string]string, e *executions.Execution, f *machine.Effect) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ExecutionLabel], labels[StepLabel] = e.ID.String(), strings.Map(labelRune, f.Path)
	return labels
}

// labelRune keeps the letters that values of labels may have.
func labelRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
		return r
	}
	return '_'
}

// read reads the body of a REST request.
func read(spec map[string]any, into proto.Message) error {
	raw, err := numbers.JSON(programs.ToAPI(spec))
	if err != nil {
		return fmt.Errorf("the spec cannot be written as JSON: %w", err)
	}
	if err := numbers.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the spec is not the body of a request: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return nil
}

var actions = map[string]work.Action{"pause": work.ActionPause, "resume": work.ActionResume, "cancel": work.ActionCancel}

func control(f *machine.Effect) (*jobverbs.ControlJob, error) {
	id, ok := ident.ParseJob(f.JobID)
	if !ok {
		return nil, call.NotFound("job", f.JobID)
	}
	return &jobverbs.ControlJob{Job: id, Action: actions[f.Action], SaveCheckpoint: true, Reason: "by the step " + f.Path}, nil
}

var priorities = map[string]uint8{"low": 1, "": 2, "normal": 2, "high": 3, "critical": 4}

// question makes a decision of what a program asks.
func (p *Interpreter) question(v *fsm.View, e *executions.Execution, q *machine.Question) (*executions.Decision, error) {
	d := &executions.Decision{
		Type: q.Type, Prompt: asked(q.Prompt), Schema: q.Schema, Priority: priorities[q.Priority], Assignee: q.Assignee, EscalateTo: q.EscalationTarget,
		Subject: q.SubjectDigest, Needed: uint32(q.Needed), Of: uint32(q.Of), RemindEvery: int64(q.RemindEvery),
	}
	action, option, _ := strings.Cut(q.OnTimeout, ":")
	switch action {
	case "continue":
		d.OnExpiry = executions.ExpireContinue
	case "escalate":
		d.OnExpiry = executions.ExpireEscalate
	case "resolve":
		d.OnExpiry, d.Default = executions.ExpireResolve, option
	default:
		d.OnExpiry = executions.ExpireFail
	}
	for _, o := range q.Options {
		d.Options = append(d.Options, executions.Option{ID: o.ID, Label: o.Label})
	}
	if q.Context != nil {
		var err error
		if d.Context, err = machine.EncodeValue(q.Context); err != nil {
			return nil, err
		}
		if len(d.Context) > executions.MaxContext {
			return nil, fmt.Errorf("its context has %d bytes, and at most %d are allowed", len(d.Context), executions.MaxContext)
		}
	}
	for _, who := range []string{q.Assignee, q.EscalationTarget} {
		if err := executions.CheckAssignee(who); err != nil {
			return nil, err
		}
	}
	asking := askingOf(v, e.Core)
	if kind, _ := executions.ParseAssignee(q.Assignee); kind == executions.Unrouted && asking.CheckpointMode == "routed" {
		return nil, errors.New("the checkpoint has no assignee, and the Core takes routed ones alone (checkpoint_mode: routed)")
	}
	d.NotifyURL = cmp.Or(q.NotifyURL, asking.NotifyURL, p.NotifyURL)
	return d, nil
}

// asked shortens a question to what a decision holds, and says so in it: nobody must answer half a question without knowing.
func asked(prompt string) string {
	if len(prompt) <= executions.MaxText {
		return prompt
	}
	note := fmt.Sprintf("\n[cut: the question has %d bytes, and %d are shown; long texts belong in its context]", len(prompt), executions.MaxText)
	return strings.ToValidUTF8(prompt[:executions.MaxText-len(note)], "") + note
}

// asking has the settings of a Core that are about its questions.
type asking struct {
	CheckpointMode string `json:"checkpoint_mode"`
	NotifyURL      string `json:"notify_url"`
}

func askingOf(v *fsm.View, id ident.Core) (a asking) {
	if c, ok := v.Core(id); ok {
		_ = json.Unmarshal(c.Config, &a) // Package cores has checked it when it came in.
	}
	return a
}

// call starts a flow of this program, or of another Core of the tenant.
func (p *Interpreter) call(v *fsm.View, e *executions.Execution, f *machine.Effect) (*executionverbs.Start, error) {
	core, number := e.Core, e.Version
	if f.Target != "self" {
		c, err := find(v, e.Tenant, f.Target)
		if err != nil {
			return nil, err
		}
		core, number = c.ID, c.Version
	}
	version, ok := v.CoreVersion(core, number)
	if !ok {
		return nil, fmt.Errorf("the Core %s has no program yet", f.Target)
	}
	return NewStart(p.Programs, version, e.Tenant, e.User, f.Flow, f.Input, map[string]any{"kind": "call"})
}

// find finds a Core that a program names: by its slug, its id, or core://TENANT/SLUG.
func find(v *fsm.View, tenant, target string) (*cores.Core, error) {
	name := target
	if rest, ok := strings.CutPrefix(target, "core://"); ok {
		owner, slug, _ := strings.Cut(rest, "/")
		if owner != tenant {
			return nil, call.NotFound("Core", target)
		}
		name = slug
	}
	if id, ok := ident.ParseCore(name); ok {
		if c, ok := v.Core(id); ok && c.Tenant == tenant {
			return c, nil
		}
	}
	if c, ok := v.CoreOf(tenant, name); ok {
		return c, nil
	}
	return nil, call.NotFound("Core", target)
}
