package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/flow/ir"
)

// await returns the result of the effect of a block. order makes the effect when there is none yet.
func (r *run) await(b *ir.Block, a *act, names *scope, order func() (Effect, bool)) (Result, outcome) {
	if a.Wait == 0 {
		e, ok := order()
		if !ok {
			return Result{}, failed
		}
		e.Block, e.Path, e.Node = b.ID, names.path(b.ID), b.Node()
		if e.Timeout == 0 && e.Kind != Timer {
			e.Timeout = duration(b.Timeout)
		}
		a.Wait = r.effect(e)
		return Result{}, waiting
	}
	result, ok := r.take(a.Wait)
	if !ok {
		return Result{}, waiting
	}
	a.Wait = 0
	if result.Err != nil {
		err := *result.Err
		r.err = &err
		return result, failed
	}
	return result, done
}

// wait lets time pass, or waits for an event.
func (r *run) wait(b *ir.Block, a *act, names *scope) outcome {
	result, o := r.await(b, a, names, func() (Effect, bool) {
		inner, ok := r.inputs(b, names)
		switch {
		case !ok:
			return Effect{}, false
		case b.Event != "":
			return Effect{Kind: Event, Name: b.Event}, true
		case b.Until != nil:
			return r.until(b, inner)
		}
		text, ok := r.text(b.Duration, inner)
		if !ok {
			return Effect{}, false
		}
		span, err := ir.ParseDuration(text)
		if err != nil {
			r.err = &Error{Code: CodeType, Message: err.Error()}
			return Effect{}, false
		}
		return Effect{Kind: Timer, After: span}, true
	})
	r.value = result.Value
	return o
}

// maxUnix bounds the times of timers, in the year 2242: nanoseconds do not reach far beyond.
const maxUnix = 1 << 33

// until is a timer for a time, which is text (RFC 3339) or a number (Unix seconds).
func (r *run) until(b *ir.Block, names *scope) (Effect, bool) {
	v, ok := r.eval(b.Until, names)
	if !ok {
		return Effect{}, false
	}
	switch at := v.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339, at); err == nil && t.Unix() > 0 && t.Unix() < maxUnix {
			return Effect{Kind: Timer, At: t.UnixNano()}, true
		}
	case int64:
		if at > 0 && at < maxUnix {
			return Effect{Kind: Timer, At: at * int64(time.Second)}, true
		}
	case float64:
		if at > 0 && at < maxUnix {
			return Effect{Kind: Timer, At: int64(at * float64(time.Second))}, true
		}
	}
	r.err = &Error{Code: CodeType, Message: fmt.Sprintf("until is %v: write a time from 1970 to 2242, such as \"2027-01-31T12:00:00Z\", or Unix seconds", v)}
	return Effect{}, false
}

// ask asks people and runs what belongs to their answer.
func (r *run) ask(b *ir.Block, a *act, names *scope) outcome {
	if a.Stage == 0 {
		result, o := r.await(b, a, names, func() (Effect, bool) {
			inner, ok := r.inputs(b, names)
			if !ok {
				return Effect{}, false
			}
			return r.question(b, inner)
		})
		if o != done {
			return o
		}
		a.Stage, a.Value = 1, result.Value
		answer, _ := result.Value.(map[string]any)
		a.Kids = []kid{{Index: armOf(b.OnResponse, answer["resolution"]), Body: &body{}}}
		// The arms see the answer under the name of the block.
		bind(b, a.Value, names)
	}
	if i := a.Kids[0].Index; i != otherwise {
		if o := r.body(a.Kids[0].Body, b.OnResponse[i].Body, names); o != done {
			return o
		}
	}
	r.value = a.Value
	return done
}

func (r *run) question(b *ir.Block, names *scope) (Effect, bool) {
	q := &Question{
		Type: b.Type, Priority: b.Priority, OnTimeout: b.OnTimeout, EscalationTarget: b.EscalationTarget, NotifyURL: b.NotifyURL,
		Schema: b.Schema, RemindEvery: duration(b.RemindEvery), Needed: 1, Of: 1,
	}
	if q.Type == "" {
		q.Type = "approval"
	}
	for _, o := range b.Options {
		q.Options = append(q.Options, Option{o.ID, o.Label})
	}
	if b.Quorum != nil {
		q.Needed, q.Of = b.Quorum.Needed, max(b.Quorum.Of, b.Quorum.Needed)
	}
	for _, part := range []struct {
		name string
		from *ir.Template
		to   *string
	}{{"prompt", b.Prompt, &q.Prompt}, {"assignee", b.Assignee, &q.Assignee}, {"subject_digest", b.SubjectDigest, &q.SubjectDigest}} {
		var ok bool
		if *part.to, ok = r.text(part.from, names); !ok {
			return Effect{}, false
		}
		if part.from != nil && part.from.Template != nil && strings.TrimSpace(*part.to) == "" {
			// Nobody named would be everybody, and no subject would fit every answer.
			r.err = &Error{Code: CodeType, Message: "the " + part.name + " of the checkpoint is empty: the value that it names is not there"}
			return Effect{}, false
		}
	}
	var ok bool
	q.Context, ok = r.evaluate(b.Context.Eval, names)
	return Effect{Kind: Ask, Question: q}, ok
}

// call runs another flow as an execution of its own.
func (r *run) call(b *ir.Block, a *act, names *scope) outcome {
	result, o := r.await(b, a, names, func() (Effect, bool) {
		input, ok := r.inputValues(b, names)
		if !ok {
			return Effect{}, false
		}
		key, ok := r.text(b.InstanceKey, names)
		return Effect{Kind: Call, Target: b.Target, Flow: b.Flow, InstanceKey: key, Version: b.Version, Input: input, Async: b.IsAsync}, ok
	})
	r.value = result.Value
	return o
}

// compute submits a job, or controls one.
func (r *run) compute(b *ir.Block, a *act, names *scope) outcome {
	result, o := r.await(b, a, names, func() (Effect, bool) {
		inner, ok := r.inputs(b, names)
		if !ok {
			return Effect{}, false
		}
		switch b.Action {
		case "pause", "resume", "cancel":
			id, ok := r.text(b.Job, inner)
			if ok && strings.TrimSpace(id) == "" {
				r.err = &Error{Code: CodeType, Message: "the job to " + b.Action + " has no id"}
				return Effect{}, false
			}
			return Effect{Kind: JobControl, Action: b.Action, JobID: id}, ok
		}
		spec, ok := r.evaluate(b.Spec.Eval, inner)
		until := b.WaitFor
		if until == "" {
			until = "end"
		}
		return Effect{Kind: Job, Action: b.Action, Spec: spec, Until: until}, ok
	})
	r.value = result.Value
	return o
}
