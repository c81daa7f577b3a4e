package users

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
)

// Flows configures executions that run throughout an attack.
type Flows struct {
	// Executions is their number.
	Executions int
	// Cycles is how often each of them runs a job or rests, in turn, and then asks. A cycle makes two groups of events, and the cluster
	// keeps the newest 65,536 (executions.MaxSegments): more than 30,000 cycles of all executions together cannot be checked.
	Cycles int
	// Rest is the longest rest. The executions have different ones, from half of it on.
	Rest time.Duration
}

// flowProgram leaves evidence of each job outside of Mind: a line in a file with the name of the job.
const flowProgram = `{"schema_version": "0.1", "name": "chaos", "flows": [{"name": "main", "body": [
	{"kind": "foreach", "id": "cycle", "items": "range(input.cycles)", "collect": "ask.resolution", "body": [
		{"kind": "if", "id": "which", "cases": [{"when": "(input.n + index) % 2 == 0", "body": [
			{"kind": "compute", "id": "job", "action": "job", "spec": {
				"name": "flow-{{input.n}}-{{index}}", "resource_config": {"gpu_fraction": 0.1}, "labels": {"flow": "{{input.run}}"},
				"command_config": {"cwd": "{{input.marks}}", "argv": ["/bin/sh", "-c", "echo $MIND_ATTEMPT >> $MIND_JOB_ID; sleep 1"]}}}]}],
			"else": [{"kind": "wait", "id": "rest", "duration": "{{input.rest}}s"}]},
		{"kind": "checkpoint", "id": "ask", "prompt": "Is {{input.n}}-{{index}} to go on?", "options": ["yes", "no"]},
		{"kind": "rigid", "id": "tell", "statements": [{"kind": "emit", "event": "chaos.cycle", "data": {"n": "{{input.n}}", "index": "{{index}}"}}]}]},
	{"kind": "rigid", "id": "end", "statements": [{"kind": "return", "value": "size(cycle)"}]}]}]}`

const coreAPI = "/v1/modules/scaicore"

// Runs are the executions of one attack.
type Runs struct {
	Flows
	rest  *procs.REST
	core  string
	run   string
	marks string
	// ids are those of the executions, by the number of the caller.
	ids []string

	mu sync.Mutex
	// answered counts the acknowledged answers to each question.
	answered map[string]int
}

// NewRuns makes a Core of the flow, and starts it. scratch is the folder for the evidence of the jobs.
func NewRuns(ctx context.Context, rest *procs.REST, run, scratch string, f Flows) (*Runs, error) {
	r := &Runs{Flows: f, rest: rest, core: "flows-" + run, run: run, marks: filepath.Join(scratch, run, "flows"), answered: map[string]int{}}
	if err := os.MkdirAll(r.marks, 0o755); err != nil {
		return nil, err
	}
	body := []byte(fmt.Sprintf(`{"name": %q, "source": %s}`, r.core, flowProgram))
	for _, made := range []struct {
		path string
		body any
	}{{"/cores", body}, {"/cores/" + r.core + "/start", nil}} {
		if err := rest.Do(ctx, http.MethodPost, coreAPI+made.path, nil, made.body, nil); err != nil {
			return nil, fmt.Errorf("making a Core: %w", err)
		}
	}
	for {
		var core struct {
			Status string `json:"status"`
		}
		if err := rest.Get(ctx, coreAPI+"/cores/"+r.core, &core); err != nil || core.Status == "running" {
			return r, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the Core of the executions is %s: %w", core.Status, err)
		}
	}
}

// Start starts the executions, each under a key, and repeats a call that failed.
func (r *Runs) Start(ctx context.Context) error {
	for n := range r.Executions {
		rest := (r.Rest + r.Rest*time.Duration(n)/time.Duration(r.Executions)) / 2
		body := map[string]any{"wait_seconds": 0, "input": map[string]any{"n": n, "cycles": r.Cycles, "rest": int(rest / time.Second), "run": r.run, "marks": r.marks}}
		header := http.Header{"Idempotency-Key": {r.run + "-flow-" + strconv.Itoa(n)}}
		var e struct {
			ID string `json:"execution_id"`
		}
		err := again(ctx, func() error {
			return r.rest.Do(ctx, http.MethodPost, coreAPI+"/cores/"+r.core+"/invoke", header, body, &e)
		})
		if err != nil {
			return fmt.Errorf("starting execution %d: %w", n, err)
		}
		r.ids = append(r.ids, e.ID)
	}
	return nil
}

// again repeats a call until it succeeds, is refused, or ctx ends.
func again(ctx context.Context, do func() error) error {
	for {
		err := do()
		var refused *procs.Error
		if err == nil || errors.As(err, &refused) && refused.HTTP < 500 && refused.HTTP != http.StatusTooManyRequests {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

type question struct {
	ID        string `json:"id"`
	Execution string `json:"execution_id"`
	Status    string `json:"status"`
	Votes     []struct {
		Resolution string `json:"resolution"`
	} `json:"votes"`
}

// Answer answers the questions until ctx ends. Two people answer each: one of the answers counts.
func (r *Runs) Answer(ctx context.Context) {
	for ctx.Err() == nil {
		var page struct {
			Checkpoints []question `json:"checkpoints"`
		}
		if err := r.rest.Get(ctx, coreAPI+"/checkpoints?limit=500&core_id="+r.core, &page); err == nil {
			var people sync.WaitGroup
			for _, option := range []string{"yes", "no"} {
				people.Go(func() {
					for _, q := range page.Checkpoints {
						r.resolve(ctx, q.ID, option)
					}
				})
			}
			people.Wait()
		}
		_ = pause(ctx, 100*time.Millisecond)
	}
}

func (r *Runs) resolve(ctx context.Context, id, option string) {
	err := r.rest.Do(ctx, http.MethodPost, coreAPI+"/checkpoints/"+id+"/resolve", nil, map[string]any{"resolution": option}, nil)
	if err == nil {
		r.mu.Lock()
		r.answered[id]++
		r.mu.Unlock()
	}
}

// pages reads all pages of a list.
func pages[T any](ctx context.Context, r *procs.REST, path, field string, take func(T)) error {
	for cursor := ""; ; {
		var page map[string]json.RawMessage
		if err := again(ctx, func() error { return r.Get(ctx, path+"&cursor="+url.QueryEscape(cursor), &page) }); err != nil {
			return err
		}
		var list []T
		if err := json.Unmarshal(page[field], &list); err != nil {
			return fmt.Errorf("the %s of %s: %w", field, path, err)
		}
		for _, one := range list {
			take(one)
		}
		cursor = ""
		if next := page["next_cursor"]; next != nil {
			if err := json.Unmarshal(next, &cursor); err != nil {
				return fmt.Errorf("the next page of %s: %w", path, err)
			}
		}
		if cursor == "" {
			return nil
		}
	}
}

type execution struct {
	ID     string `json:"execution_id"`
	Status string `json:"status"`
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// list returns all executions, and how many of them are not over.
func (r *Runs) list(ctx context.Context) (all map[string]execution, live int, err error) {
	all = map[string]execution{}
	if err := pages(ctx, r.rest, coreAPI+"/executions?limit=500&core_id="+r.core, "executions", func(e execution) {
		all[e.ID] = e
		if e.Status == "running" || e.Status == "waiting" || e.Status == "paused" {
			live++
		}
	}); err != nil {
		return nil, 0, fmt.Errorf("listing executions: %w", err)
	}
	return all, live, nil
}

// Live returns how many executions are not over.
func (r *Runs) Live(ctx context.Context) (int, error) {
	_, live, err := r.list(ctx)
	return live, err
}

// wait waits until all executions are over, and returns them.
func (r *Runs) wait(ctx context.Context) (map[string]execution, error) {
	for {
		all, live, err := r.list(ctx)
		if err != nil || live == 0 {
			return all, err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return nil, fmt.Errorf("%d of %d executions are not over: %w", live, len(all), err)
		}
	}
}

// Judge waits until all executions are over, and compares the executions, their jobs, timers, questions and events with what there should be.
func (r *Runs) Judge(ctx context.Context, v *result.Result) error {
	all, err := r.wait(ctx)
	if err != nil {
		return err
	}
	v.Executions += len(r.ids)
	r.mu.Lock()
	answered := maps.Clone(r.answered)
	r.mu.Unlock()
	e := evidence{cycles: r.Cycles, executions: all, ids: r.ids, answered: answered, marks: map[string]string{}}
	if e.jobs, err = r.rest.Jobs(ctx, "label=flow%3D"+r.run); err != nil {
		return fmt.Errorf("listing the jobs of executions: %w", err)
	}
	files, err := os.ReadDir(r.marks)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(r.marks, file.Name()))
		if err != nil {
			return err
		}
		e.marks[file.Name()] = string(text)
	}
	if err := pages(ctx, r.rest, coreAPI+"/checkpoints?status=all&limit=500&core_id="+r.core, "checkpoints", func(q question) {
		e.questions = append(e.questions, q)
	}); err != nil {
		return fmt.Errorf("listing questions: %w", err)
	}
	if err := pages(ctx, r.rest, coreAPI+"/events?limit=500&core_id="+r.core, "events", func(h happening) {
		e.happenings = append(e.happenings, h)
	}); err != nil {
		return fmt.Errorf("listing events: %w", err)
	}
	v.Flows = append(v.Flows, e.faults()...)
	return nil
}
