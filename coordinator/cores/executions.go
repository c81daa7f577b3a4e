package cores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/interpreter"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
)

const (
	// defaultWait and maxWait bound how long InvokeCore waits for the end of the execution.
	defaultWait = 30 * time.Second
	maxWait     = 60 * time.Second
)

// InvokeCore starts an execution, and waits a while for its end. It returns sooner when the execution waits for people.
func (s *Service) InvokeCore(ctx context.Context, req *v1.InvokeCoreRequest) (*v1.InvokeCoreResponse, error) {
	patience := defaultWait
	if req.WaitSeconds != nil {
		if patience = time.Duration(req.GetWaitSeconds()) * time.Second; patience < 0 || patience > maxWait {
			return nil, call.Bad("wait_seconds", "must be 0 to %d", maxWait/time.Second)
		}
	}
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	_, version, err := s.runnable(ctx, v, req.GetCoreId())
	if err != nil {
		return nil, err
	}
	m, err := s.Programs.Module(version)
	if err != nil {
		return nil, err
	}
	flow := req.GetFlow()
	if flow == "" {
		flow = triggered(m, "api", "")
	}
	by := call.Of(ctx)
	input := programs.FromAPI(req.GetInput())
	start, err := interpreter.NewStart(s.Programs, version, by.Tenant, by.User, flow, input, map[string]any{"kind": "api"})
	if err != nil {
		return nil, call.Bad("input", "%v", err)
	}
	start.Request = by.RequestID
	if by.Key != "" {
		start.Key, start.Fingerprint = by.Key, fingerprint(start.Flow, start.Input)
	}
	result, err := replica.Propose[executionverbs.StartsResult](ctx, s.State, executionverbs.StartExecutions{Starts: []executionverbs.Start{*start}, Actor: by.Submitter()})
	if err != nil {
		return nil, err
	}
	if r := result.Results[0].Refusal; r != nil {
		return nil, call.Refused(r)
	}
	return &v1.InvokeCoreResponse{Execution: s.await(ctx, result.Results[0].Execution, patience)}, nil
}

func fingerprint(flow string, input []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(flow + "\x00"))
	_, _ = h.Write(input)
	return h.Sum64()
}

// startWithin is how long a call waits for a Core that starts.
const startWithin = 5 * time.Second

// runnable finds a Core that runs, and its program. It waits for a Core that starts.
func (s *Service) runnable(ctx context.Context, v *fsm.View, text string) (*cores.Core, *cores.Version, error) {
	c, err := find(ctx, v, text)
	if err != nil {
		return nil, nil, err
	}
	starts := func() bool { return c.Status == cores.Starting || c.Status == cores.Restarting }
	waiting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for starts() {
		if v, err = s.State.Newer(waiting, v.Index()); err != nil {
			return nil, nil, call.Errorf(codes.FailedPrecondition, "the Core %s is still %s: try again in a moment", c.Slug, c.Status)
		}
		if c, err = find(ctx, v, text); err != nil {
			return nil, nil, err
		}
	}
	if c.Status != cores.Running {
		return nil, nil, call.Errorf(codes.FailedPrecondition, "the Core %s is %s: start it first", c.Slug, c.Status)
	}
	version, ok := v.CoreVersion(c.ID, c.Version)
	if !ok {
		return nil, nil, call.Errorf(codes.FailedPrecondition, "the Core %s has no program yet", c.Slug)
	}
	return c, version, nil
}

// triggered is the flow that the first trigger of a kind starts; empty: the first flow.
func triggered(m *ir.Module, kind, event string) string {
	for _, t := range m.Triggers {
		if t.Kind == kind && (event == "" || t.Event == "" || t.Event == event) {
			return t.TargetFlow
		}
	}
	return ""
}

// await waits for the end of an execution, or until it waits for people.
func (s *Service) await(ctx context.Context, e *executions.Execution, patience time.Duration) *v1.Execution {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v := s.State.View()
	for {
		if now, ok := v.Execution(e.ID); ok {
			e = now
		}
		if e.Status.Over() || e.Status == executions.Paused || asks(e) {
			return executionShown(v, e)
		}
		next, err := s.State.Newer(ctx, v.Index())
		if err != nil {
			return executionShown(v, e)
		}
		v = next
	}
}

// asks says whether an execution waits for people and for nothing else.
func asks(e *executions.Execution) bool {
	for i := range e.Waits {
		if e.Waits[i].Kind != executions.ForDecision || e.Waits[i].Done {
			return false
		}
	}
	return len(e.Waits) > 0 && e.Status == executions.Waiting
}

// SendCoreEvent sends an event to a Core.
func (s *Service) SendCoreEvent(ctx context.Context, req *v1.SendCoreEventRequest) (*v1.SendCoreEventResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetEventName() == "" {
		return nil, call.Bad("event_name", "is missing: say which event it is")
	}
	c, version, err := s.runnable(ctx, v, req.GetCoreId())
	if err != nil {
		return nil, err
	}
	m, err := s.Programs.Module(version)
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	data := programs.FromAPI(req.GetData())
	command := executionverbs.SendEvent{Core: c.ID, Tenant: by.Tenant, Name: req.GetEventName(), Actor: by.Actor()}
	if command.Data, err = machine.EncodeValue(data); err != nil {
		return nil, call.Bad("data", "%v", err)
	}
	for i, flow := range startedBy(m, configOf(c), req.GetEventName()) {
		start, err := interpreter.NewStart(s.Programs, version, by.Tenant, by.User, flow, data, map[string]any{"kind": "event", "name": req.GetEventName(), "data": data})
		if err != nil {
			return nil, call.Bad("data", "%v", err)
		}
		// An event that is sent again with its key starts nothing again.
		if by.Key != "" {
			start.Key, start.Fingerprint = by.Key, fingerprint(req.GetEventName(), start.Input)
		}
		if by.Key != "" && i > 0 {
			start.Key = fmt.Sprintf("%s#%d", by.Key, i)
		}
		command.Starts = append(command.Starts, *start)
	}
	sent, err := s.send(ctx, command)
	if err != nil {
		return nil, err
	}
	out := &v1.SendCoreEventResponse{Status: "accepted", Woken: int32(sent.Woken)}
	for _, id := range sent.Started {
		out.ExecutionIds = append(out.ExecutionIds, id.String())
	}
	return out, nil
}

// startedBy lists the flows that an event starts: those with a trigger for it, or the first flow of an event-driven Core that has no
// triggers for events.
func startedBy(m *ir.Module, c *config, event string) (flows []string) {
	declared := false
	for _, t := range m.Triggers {
		if t.Kind == "event" {
			declared = true
			if t.Event == "" || t.Event == event {
				flows = append(flows, t.TargetFlow)
			}
		}
	}
	if !declared && c.RuntimeMode == "event_driven" {
		return []string{""}
	}
	return flows
}

func (s *Service) send(ctx context.Context, command executionverbs.SendEvent) (executionverbs.SentResult, error) {
	sent, err := replica.Propose[executionverbs.SentResult](ctx, s.State, command)
	if err == nil && sent.Refusal != nil {
		err = call.Refused(sent.Refusal)
	}
	return sent, err
}

// findExecution finds an execution of the caller's tenant. Another tenant's is not found.
func findExecution(ctx context.Context, v *fsm.View, text string) (*executions.Execution, error) {
	if id, ok := ident.ParseExecution(text); ok {
		if e, ok := v.Execution(id); ok && e.Tenant == call.Of(ctx).Tenant {
			return e, nil
		}
	}
	return nil, call.NotFound("execution", text)
}

// ListExecutions lists the executions of the caller's tenant, the newest first.
func (s *Service) ListExecutions(ctx context.Context, req *v1.ListExecutionsRequest) (*v1.ListExecutionsResponse, error) {
	most, err := limit(req.GetLimit())
	if err != nil {
		return nil, err
	}
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	var of ident.Core
	if req.GetCoreId() != "" {
		c, err := find(ctx, v, req.GetCoreId())
		if err != nil {
			return nil, err
		}
		of = c.ID
	}
	before, ok := ident.ParseExecution(req.GetCursor())
	if req.GetCursor() != "" && !ok {
		return nil, call.Bad("cursor", "is not a next_cursor of a page")
	}
	out := &v1.ListExecutionsResponse{}
	looked := 0
	for e := range v.ExecutionsOf(call.Of(ctx).Tenant, before) {
		if looked++; len(out.Executions) == most || looked > maxLooked {
			out.NextCursor = ident.Execution(uint64(e.ID) + 1).String()
			break
		}
		if of != 0 && e.Core != of || req.GetStatus() != "" && status(v, e) != req.GetStatus() {
			continue
		}
		shown := executionShown(v, e)
		shown.Steps, shown.Input, shown.Output = nil, nil, nil
		out.Executions = append(out.Executions, shown)
	}
	return out, nil
}

// maxLooked bounds the rows that one page looks at.
const maxLooked = 20_000

// GetExecution shows an execution.
func (s *Service) GetExecution(ctx context.Context, req *v1.GetExecutionRequest) (*v1.GetExecutionResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := findExecution(ctx, v, req.GetExecutionId())
	if err != nil {
		return nil, err
	}
	return &v1.GetExecutionResponse{Execution: executionShown(v, e)}, nil
}

// steer proposes what somebody wants of an execution.
func (s *Service) steer(ctx context.Context, text string, c executionverbs.ControlExecution) (*v1.Execution, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := findExecution(ctx, v, text)
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	if len(c.Reason) > call.MaxReason {
		return nil, call.Bad("reason", "must have at most %d bytes", call.MaxReason)
	}
	c.Execution, c.Tenant, c.Actor = e.ID, by.Tenant, by.Actor()
	result, err := replica.Propose[executionverbs.Result](ctx, s.State, c)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return executionShown(s.State.View(), result.Execution), nil
}

// CancelExecution cancels an execution.
func (s *Service) CancelExecution(ctx context.Context, req *v1.CancelExecutionRequest) (*v1.CancelExecutionResponse, error) {
	e, err := s.steer(ctx, req.GetExecutionId(), executionverbs.ControlExecution{Action: executionverbs.Cancel, Reason: req.GetReason(), Force: req.GetForce()})
	return &v1.CancelExecutionResponse{Execution: e}, err
}

// PauseExecution holds an execution.
func (s *Service) PauseExecution(ctx context.Context, req *v1.PauseExecutionRequest) (*v1.PauseExecutionResponse, error) {
	e, err := s.steer(ctx, req.GetExecutionId(), executionverbs.ControlExecution{Action: executionverbs.Pause, Reason: req.GetReason()})
	return &v1.PauseExecutionResponse{Execution: e}, err
}

// ResumeExecution lets a paused execution go on.
func (s *Service) ResumeExecution(ctx context.Context, req *v1.ResumeExecutionRequest) (*v1.ResumeExecutionResponse, error) {
	e, err := s.steer(ctx, req.GetExecutionId(), executionverbs.ControlExecution{Action: executionverbs.Resume, Reason: req.GetReason()})
	return &v1.ResumeExecutionResponse{Execution: e}, err
}

// RetryExecution has a failed execution go on from a step.
func (s *Service) RetryExecution(ctx context.Context, req *v1.RetryExecutionRequest) (*v1.RetryExecutionResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := findExecution(ctx, v, req.GetExecutionId())
	if err != nil {
		return nil, err
	}
	// The state refuses the frame if it has another one meanwhile.
	c := executionverbs.ControlExecution{Action: executionverbs.Retry, Seq: e.Seq}
	if e.Status != executions.Failed {
		return nil, call.Errorf(codes.FailedPrecondition, "the execution %s is %s: only a failed one can be retried", e.ID, e.Status)
	}
	version, ok := v.CoreVersion(e.Core, e.Version)
	if !ok {
		return nil, call.Errorf(codes.FailedPrecondition, "version %d of its program is not there any more: start another execution", e.Version)
	}
	program, err := s.Programs.Flow(version, e.Flow)
	if err != nil {
		return nil, err
	}
	if c.Frame, err = program.Retry(e.Frame, req.GetFrom(), programs.FromStruct(req.GetBindings())); err != nil {
		if errors.Is(err, machine.ErrNotFailed) {
			return nil, call.Errorf(codes.FailedPrecondition, "%v", err)
		}
		return nil, call.Bad("from", "%v", err)
	}
	shown, err := s.steer(ctx, req.GetExecutionId(), c)
	return &v1.RetryExecutionResponse{Execution: shown}, err
}

// SignalExecution sends an event to one execution.
func (s *Service) SignalExecution(ctx context.Context, req *v1.SignalExecutionRequest) (*v1.SignalExecutionResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := findExecution(ctx, v, req.GetExecutionId())
	if err != nil {
		return nil, err
	}
	if req.GetName() == "" {
		return nil, call.Bad("name", "is missing: say which event it is")
	}
	by := call.Of(ctx)
	c := executionverbs.SendEvent{Core: e.Core, Tenant: by.Tenant, Execution: e.ID, Name: req.GetName(), Actor: by.Actor()}
	if c.Data, err = machine.EncodeValue(programs.FromAPI(req.GetData())); err != nil {
		return nil, call.Bad("data", "%v", err)
	}
	if _, err := s.send(ctx, c); err != nil {
		return nil, err
	}
	now := s.State.View()
	if after, ok := now.Execution(e.ID); ok {
		e = after
	}
	return &v1.SignalExecutionResponse{Execution: executionShown(now, e)}, nil
}

// ListCoreEvents lists events of executions, the newest first.
func (s *Service) ListCoreEvents(ctx context.Context, req *v1.ListCoreEventsRequest) (*v1.ListCoreEventsResponse, error) {
	most, err := limit(req.GetLimit())
	if err != nil {
		return nil, err
	}
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	var core ident.Core
	var execution ident.Execution
	if req.GetCoreId() != "" {
		c, err := find(ctx, v, req.GetCoreId())
		if err != nil {
			return nil, err
		}
		core = c.ID
	}
	if req.GetExecutionId() != "" {
		e, err := findExecution(ctx, v, req.GetExecutionId())
		if err != nil {
			return nil, err
		}
		execution = e.ID
	}
	at, err := parseCursor(req.GetCursor())
	if err != nil {
		return nil, err
	}
	out := &v1.ListCoreEventsResponse{}
	looked := 0
	segments := v.Segments(at.segment)
	if execution != 0 {
		segments = v.SegmentsOf(execution, at.segment)
	}
	for seg := range segments {
		if looked++; looked > maxLooked {
			out.NextCursor = cursor{seg.ID + 1, 0}.String()
			break
		}
		if seg.Tenant != call.Of(ctx).Tenant || core != 0 && seg.Core != core {
			continue
		}
		last := len(seg.Events)
		if seg.ID+1 == at.segment && at.left > 0 {
			last = min(at.left, last)
		}
		for i := last - 1; i >= 0; i-- {
			if len(out.Events) == most {
				out.NextCursor = cursor{seg.ID + 1, i + 1}.String()
				return out, nil
			}
			out.Events = append(out.Events, eventShown(seg, &seg.Events[i]))
		}
	}
	return out, nil
}

// cursor is where a page of events ends: before a segment, of which so many events are left.
type cursor struct {
	segment uint64
	left    int
}

func (c cursor) String() string {
	raw, _ := json.Marshal([]uint64{c.segment, uint64(c.left)})
	return string(raw)
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	var parts []uint64
	if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts) != 2 {
		return cursor{}, call.Bad("cursor", "is not a next_cursor of a page")
	}
	return cursor{parts[0], int(min(parts[1], 1<<20))}, nil
}
