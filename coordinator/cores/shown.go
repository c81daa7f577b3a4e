package cores

import (
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/interpreter"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// shown is a Core for an answer; whole: with its program.
func (s *Service) shown(c *cores.Core, whole bool) *v1.Core {
	k := configOf(c)
	out := &v1.Core{
		Id: c.ID.String(), TenantId: c.Tenant, UserId: c.User, Slug: c.Slug, Name: c.Name, Status: c.Status.String(), Version: int32(c.Version),
		RuntimeMode: k.RuntimeMode, ConcurrencyMode: k.ConcurrencyMode, EntityKeyField: k.EntityKeyField, CheckpointMode: k.CheckpointMode,
		PrivilegeLevel: k.PrivilegeLevel, NotifyUrl: k.NotifyURL, EnvironmentNames: k.Names,
		CreatedAt: call.Time(c.CreatedAt), UpdatedAt: call.Time(c.UpdatedAt), StartedAt: call.Time(c.StartedAt), Revision: int64(c.Revision),
	}
	if c.Reason != "" {
		out.Error = words.Of(c.Reason)
	}
	if k.Metadata != nil {
		out.Metadata = programs.ToStruct(k.Metadata)
	}
	if k.ResourceLimits != nil {
		out.ResourceLimits = programs.ToStruct(k.ResourceLimits)
	}
	for _, p := range k.Plugins {
		out.Plugins = append(out.Plugins, programs.ToStruct(p))
	}
	if version, ok := s.State.View().CoreVersion(c.ID, c.Version); ok {
		out.SourceDigest = version.Digest
		if source, err := numbers.ParseObject(version.Source); whole && err == nil {
			out.Source = source
		}
	}
	return out
}

func stepError(f *executions.Failure) *v1.StepError {
	if f == nil {
		return nil
	}
	e := interpreter.Failed(f)
	return &v1.StepError{Code: e.Code, Message: e.Message, Step: f.Step, Retryable: e.Retryable}
}

// status is how an execution stands. One that could go on is paused while its Core does not run.
func status(v *fsm.View, e *executions.Execution) string {
	if e.Status == executions.Ready && !e.Cancel {
		if c, ok := v.Core(e.Core); ok && c.Status != cores.Running {
			return executions.Paused.String()
		}
	}
	return e.Status.String()
}

// slugIn is the slug of a Core; empty: it is not there.
func slugIn(v *fsm.View, id ident.Core) string {
	if c, ok := v.Core(id); ok {
		return c.Slug
	}
	return ""
}

// executionShown is an execution for an answer.
func executionShown(v *fsm.View, e *executions.Execution) *v1.Execution {
	out := &v1.Execution{
		ExecutionId: e.ID.String(), CoreId: e.Core.String(), Version: int32(e.Version), Flow: e.Flow, Status: status(v, e),
		Input: programs.Stored(e.Input), Output: programs.Stored(e.Output), Error: stepError(e.Err), Trigger: e.Trigger, UserId: e.User,
		Retries: int32(e.Retries), CreatedAt: call.Time(e.CreatedAt), UpdatedAt: call.Time(e.UpdatedAt), FinishedAt: call.Time(e.FinishedAt), Revision: int64(e.Revision),
	}
	out.CoreSlug = slugIn(v, e.Core)
	if e.Parent != 0 {
		out.ParentId = e.Parent.String()
	}
	for i := range e.Waits {
		if w := &e.Waits[i]; !w.Done {
			out.WaitingFor = append(out.WaitingFor, awaited(w))
		}
	}
	for i := range e.Steps {
		s := &e.Steps[i]
		step := &v1.ExecutionStep{
			Step: s.Path, NodeId: s.Node, Kind: s.Kind, Attempt: int32(s.Attempt), Status: "running",
			StartedAt: call.Time(s.StartedAt), EndedAt: call.Time(s.EndedAt), Error: stepError(s.Err),
		}
		switch {
		case s.Err != nil:
			step.Status = "failed"
		case s.EndedAt != 0:
			step.Status = "completed"
		case e.Status.Over():
			step.Status, step.EndedAt = e.Status.String(), call.Time(e.FinishedAt)
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

func awaited(w *executions.Wait) *v1.Awaited {
	out := &v1.Awaited{Step: w.Path, NodeId: w.Node, Kind: w.Kind.String(), Since: call.Time(w.Since), Until: call.Time(w.Deadline)}
	switch w.Kind {
	case executions.ForTimer:
		out.Until = call.Time(w.Due)
	case executions.ForJob:
		out.Id = w.Job.String()
	case executions.ForDecision:
		out.Id = w.Decision.String()
	case executions.ForExecution:
		out.Id = w.Execution.String()
	case executions.ForEvent:
		out.Id = w.Event
	}
	return out
}

var (
	priorities = map[uint8]string{1: "low", 2: "normal", 3: "high", 4: "critical"}
	onExpiry   = map[executions.OnExpiry]string{
		executions.ExpireFail: "fail", executions.ExpireContinue: "continue", executions.ExpireEscalate: "escalate", executions.ExpireResolve: "resolve",
	}
)

// DecisionShown is a decision for an answer, and for a notice.
func DecisionShown(v *fsm.View, d *executions.Decision) *v1.Decision {
	out := &v1.Decision{
		Id: d.ID.String(), FlowName: d.Flow, Step: d.Path, NodeId: d.Node, CheckpointType: d.Type, Prompt: d.Prompt,
		Context: programs.Stored(d.Context), Status: d.Status.String(), Priority: priorities[d.Priority], AssigneeRaw: d.Assignee,
		AssigneeType: d.AssigneeType.String(), ExpiresAt: call.Time(d.ExpiresAt), ExpiryAction: onExpiry[d.OnExpiry], EscalationTarget: d.EscalateTo,
		Escalated: d.Escalated, ReminderCount: int32(d.Reminders), ReminderIntervalMinutes: int32(d.RemindEvery / 60e9),
		NotificationSent: d.NotifiedAt != 0, NotifiedAt: call.Time(d.NotifiedAt), NotifyError: d.NotifyError, SubjectDigest: d.Subject, Quorum: &v1.CheckpointQuorum{Needed: int32(d.Needed), Of: int32(d.Of)}, Resolution: d.Resolution, ResolvedBy: d.ResolvedBy,
		ResolvedAt: call.Time(d.ResolvedAt), CreatedAt: call.Time(d.CreatedAt), Revision: int64(d.Revision),
	}
	out.CoreSlug = slugIn(v, d.Core)
	if d.Execution != 0 {
		out.ExecutionId, out.CoreId = d.Execution.String(), d.Core.String()
	}
	if d.Job != 0 {
		if d.OnExpiry == executions.ExpireFail {
			out.ExpiryAction = "cancel"
		}
		out.JobId, out.Attempt = d.Job.String(), int32(d.Attempt)
	}
	for _, o := range d.Options {
		out.Options = append(out.Options, &v1.CheckpointOption{Id: o.ID, Label: o.Label, Cancels: o.Cancels})
	}
	for _, vote := range d.Votes {
		out.Votes = append(out.Votes, &v1.CheckpointVote{UserId: vote.User, Resolution: vote.Resolution, Comment: vote.Comment, At: call.Time(vote.At)})
		if vote.User == d.ResolvedBy {
			out.Data = programs.Stored(vote.Data)
		}
	}
	if len(d.Schema) > 0 {
		if schema, err := numbers.ParseObject(d.Schema); err == nil {
			out.Schema = schema
		}
	}
	return out
}

// eventShown is an event for an answer.
func eventShown(s *executions.Segment, h *executions.Happening) *v1.CoreEvent {
	payload := map[string]any{}
	if s.Execution != 0 {
		payload["execution_id"] = s.Execution.String()
	}
	set := func(name, text string) {
		if text != "" {
			payload[name] = text
		}
	}
	set("node_id", h.Node)
	set("step", h.Path)
	set("block_kind", h.Kind)
	set("result_binding", h.Name)
	if h.Attempt > 0 {
		payload["attempt"] = int64(h.Attempt)
	}
	if h.Err != nil {
		e := interpreter.Failed(h.Err)
		payload["error"] = map[string]any{"code": e.Code, "message": e.Message, "step": h.Err.Step}
	}
	shown := programs.ToStruct(payload)
	name := "data"
	switch {
	case strings.HasSuffix(h.Type, "block.exited"):
		name = "result_binding_value"
	case strings.HasSuffix(h.Type, "invocation.started"):
		name = "input"
	case strings.HasSuffix(h.Type, "invocation.completed"):
		name = "output"
	}
	if value := programs.Stored(h.Value); value != nil {
		shown.Fields[name] = value
	} else if h.Truncated {
		shown.Fields[strings.TrimSuffix(name, "_value")+"_truncated"] = structpb.NewBoolValue(true)
	}
	return &v1.CoreEvent{Type: h.Type, CoreId: s.Core.String(), Timestamp: call.Time(s.At), Payload: shown}
}
