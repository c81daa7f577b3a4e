// Package interpreter is the part of the leader that runs Cores: it advances executions that are ready, and completes what Cores have
// begun to do (start, stop, restart).
//
// It is a pure function of the state: it reads a frame and the results that have come, computes the next frame, and proposes it once
// with all its effects. A leader that dies before is followed by one that computes the same step again; the state takes one of them.
//
// Guarantees. An execution is advanced by one proposal at a time. Cores take turns, so that one with many executions does not keep the
// others waiting. A program that panics, or that cannot be read, fails its execution and nothing else.
package interpreter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Newer waits for a view newer than an index.
	Newer(ctx context.Context, after uint64) (*fsm.View, error)
}

// Admission decides which requests become jobs.
type Admission interface {
	Job(ctx context.Context, req *v1.SubmitJobRequest, key string) (jobverbs.NewJob, error)
}

// Evaluations makes jobs of the requests of evaluations, and shows them.
type Evaluations interface {
	NewJob(ctx context.Context, v *fsm.View, req *v1.SubmitEvaluationRequest) (jobverbs.NewJob, error)
	Show(v *fsm.View, j *work.Job) *v1.Evaluation
}

// Config configures an Interpreter.
type Config struct {
	State       State
	Admission   Admission
	Evaluations Evaluations
	Programs    *programs.Cache
	// Open opens the sealed environment of a Core, when it starts.
	Open func(c *cores.Core) error
	// Notifies says why a URL cannot get notices of decisions.
	Notifies func(url string) error
	// NotifyURL gets those of Cores and checkpoints that name none; empty: nobody does.
	NotifyURL string
	// Advanced is told the outcome of each step; one that the state has refused is "refused".
	Advanced func(outcome string)
	Log      *slog.Logger
}

const (
	// atATime bounds the steps of one proposal, batchBytes their frames, and inFlight the proposals that are under way: another
	// write that comes then is applied after all of these.
	atATime    = 64
	batchBytes = 512 << 10
	inFlight   = 4
	// lookAt bounds the executions that are looked at of a Core that does not run.
	lookAt = 1024
	// pause is how long the interpreter waits after a proposal failed.
	pause = 50 * time.Millisecond
)

// Interpreter advances the executions of a cluster while its coordinator leads.
type Interpreter struct {
	Config
	limits machine.Limits
}

// New makes an Interpreter.
func New(c Config) *Interpreter { return &Interpreter{Config: c, limits: machine.DefaultLimits} }

// Lead advances executions until ctx ends.
func (p *Interpreter) Lead(ctx context.Context) {
	t := &turn{Interpreter: p, busy: map[ident.Execution]bool{}, room: make(chan struct{}, inFlight), freed: make(chan struct{}, 1)}
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		v := p.State.View()
		p.moveCores(ctx, v)
		batch := t.choose(v)
		if len(batch) == 0 {
			t.wait(ctx, v.Index())
			continue
		}
		select {
		case t.room <- struct{}{}:
		case <-ctx.Done():
			t.free(batch)
			return
		}
		running.Go(func() {
			defer func() { <-t.room }()
			defer t.free(batch)
			if err := p.advance(ctx, v, batch); err != nil && ctx.Err() == nil {
				p.Log.Warn("steps of executions were not taken: the next attempt follows", "executions", len(batch), "error", err)
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
}

// turn is the state of one term.
type turn struct {
	*Interpreter
	mu   sync.Mutex
	busy map[ident.Execution]bool
	// last is the Core that was served last.
	last  ident.Core
	room  chan struct{}
	freed chan struct{}
}

// wait waits for a newer view, or for a proposal to end.
func (t *turn) wait(ctx context.Context, after uint64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		_, _ = t.State.Newer(ctx, after)
	}()
	select {
	case <-changed:
	case <-t.freed:
		cancel()
		<-changed
	}
}

func (t *turn) free(batch []*executions.Execution) {
	t.mu.Lock()
	for _, e := range batch {
		delete(t.busy, e.ID)
	}
	t.mu.Unlock()
	select {
	case t.freed <- struct{}{}:
	default:
	}
}

// choose returns executions to advance, some of each Core in turn.
func (t *turn) choose(v *fsm.View) []*executions.Execution {
	if v.ReadyCount() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var batch []*executions.Execution
	size := 0
	take := func(core ident.Core) bool {
		c, ok := v.Core(core)
		runs := ok && c.Status == cores.Running
		looked := 0
		for e := range v.ReadyOf(core) {
			if len(batch) == atATime || size > batchBytes {
				return false
			}
			// Many executions of a Core that does not run must not slow down the others.
			if looked++; !runs && looked > lookAt {
				break
			}
			// An execution that is to end does so also while its Core does not run.
			if t.busy[e.ID] || !runs && !e.Cancel {
				continue
			}
			t.busy[e.ID] = true
			batch = append(batch, e)
			size += len(e.Frame)
		}
		t.last = core
		return true
	}
	first := t.last + 1
	for core := range v.ReadyCores(first) {
		if !take(core) {
			return batch
		}
	}
	for core := range v.ReadyCores(0) {
		if core >= first || !take(core) {
			break
		}
	}
	return batch
}

// advance computes a step of each execution, and proposes them together.
func (p *Interpreter) advance(ctx context.Context, v *fsm.View, batch []*executions.Execution) error {
	command := executionverbs.AdvanceExecutions{Advances: make([]executionverbs.Advance, len(batch))}
	for i, e := range batch {
		command.Advances[i] = p.step(ctx, v, e)
	}
	result, err := replica.Propose[executionverbs.AdvancesResult](ctx, p.State, command)
	if err != nil {
		return err
	}
	for i, r := range result.Results {
		outcome := command.Advances[i].Outcome.String()
		if r.Refusal != nil {
			outcome = "refused"
			p.Log.Debug("a step of an execution was refused", "execution", batch[i].ID.String(), "reason", string(r.Refusal.Reason))
		}
		p.Advanced(outcome)
	}
	return nil
}
