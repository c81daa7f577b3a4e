package interpreter

import (
	"context"
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// NewStart makes the start of an execution of a flow; the empty name is the first one.
func NewStart(cache *programs.Cache, version *cores.Version, tenant, user, flow string, input any, trigger map[string]any) (*executionverbs.Start, error) {
	program, err := cache.Flow(version, flow)
	if err != nil {
		return nil, err
	}
	frame, err := program.Start(input, trigger)
	if err != nil {
		return nil, err
	}
	stored, err := machine.EncodeValue(input)
	if err != nil {
		return nil, fmt.Errorf("storing the input: %w", err)
	}
	if len(stored) > executions.MaxValue {
		return nil, fmt.Errorf("the input has %d bytes, and at most %d are allowed", len(stored), executions.MaxValue)
	}
	kind, _ := trigger["kind"].(string)
	return &executionverbs.Start{
		Core: version.Core, Tenant: tenant, User: user, Version: version.Number, Flow: program.Flow.Name, Frame: frame, Input: stored, Trigger: kind,
	}, nil
}

// moveCores completes what Cores have begun: those that start or restart are checked and run, those that stop have stopped.
func (p *Interpreter) moveCores(ctx context.Context, v *fsm.View) {
	for c := range v.MovingCores() {
		command := coreverbs.ControlCore{ID: c.ID, Action: cores.Ready}
		if c.Status == cores.Stopping {
			command.Action = cores.Halted
		} else if err := p.startable(v, c); err != nil {
			command.Action, command.Reason = cores.Fail, reason.Text(call.Clip(err.Error(), maxWhy))
		}
		result, err := replica.Propose[coreverbs.Result](ctx, p.State, command)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				p.Log.Warn("a Core was not moved on: the next attempt follows", "core", c.ID.String(), "status", c.Status.String(), "error", err)
			}
			return
		case result.Refusal == nil:
			p.Log.Info("Core has moved on", "tenant", c.Tenant, "core", c.Slug, "from", c.Status.String(), "to", result.Core.Status.String(), "reason", string(result.Core.Reason))
		}
	}
}

const maxWhy = 1024

// startable says why a Core cannot run.
func (p *Interpreter) startable(v *fsm.View, c *cores.Core) error {
	version, ok := v.CoreVersion(c.ID, c.Version)
	if !ok {
		return fmt.Errorf("INVALID_SOURCE_IR: the Core has no program: give it a source")
	}
	if _, faults := programs.Validate(version.Source); len(faults) > 0 {
		return fmt.Errorf("INVALID_SOURCE_IR: %s", strings.Join(faults, "; "))
	}
	if len(c.Environment) > 0 && p.Open != nil {
		if err := p.Open(c); err != nil {
			return err
		}
	}
	if url := askingOf(v, c.ID).NotifyURL; url != "" && p.Notifies != nil {
		if err := p.Notifies(url); err != nil {
			return fmt.Errorf("its notify_url cannot be used: %w", err)
		}
	}
	if p.Notifies == nil {
		return nil
	}
	return programs.CheckURLs(version.Source, p.Notifies)
}
