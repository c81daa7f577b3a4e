package rehearse

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/flow/machine"
)

// answer arranges that a wait gets its recorded answer, or that it is asked for.
func (r *rehearsal) answer(p *pending) error {
	a, ok := r.o.Answers.next(p.path)
	switch {
	case ok:
		if err := p.check(a); err != nil {
			return fmt.Errorf("the answers for %s: %w", p.path, err)
		}
		r.schedule(p, a)
	case p.effect.Kind == machine.JobControl:
		// Nothing waits for what a job does then, so it needs no answer.
		r.after(0, &arrival{to: p})
	default:
		r.asking = append(r.asking, p)
	}
	return nil
}

// schedule arranges that an answer comes, or the timeout of the wait if that is earlier.
func (r *rehearsal) schedule(p *pending, a answer) {
	if timeout := timeoutOf(&p.effect); a.timeout || a.after > timeout {
		r.after(timeout, r.late(p))
		return
	}
	r.after(a.after, &arrival{to: p, result: machine.Result{Value: a.value, Err: a.err}})
}

func timeoutOf(effect *machine.Effect) time.Duration {
	switch {
	case effect.Timeout > 0:
		return effect.Timeout
	case effect.Kind == machine.Call:
		return callTimeout
	}
	return longTimeout
}

// late is the result of a wait whose time is up.
func (r *rehearsal) late(p *pending) *arrival {
	if p.effect.Kind != machine.Ask {
		return &arrival{to: p, result: machine.Result{Err: &machine.Error{
			Code: machine.CodeTimeout, Message: fmt.Sprintf("it took longer than its timeout of %s", timeoutOf(&p.effect)), Retryable: true,
		}}}
	}
	switch action, option, _ := strings.Cut(p.effect.Question.OnTimeout, ":"); {
	case action == "continue":
		return &arrival{to: p}
	case action == "resolve":
		return &arrival{to: p, result: machine.Result{Value: map[string]any{"resolution": option}}}
	case action == "escalate" && !p.escalated:
		return &arrival{to: p, escalate: true}
	}
	return &arrival{to: p, result: machine.Result{Err: &machine.Error{
		Code: machine.CodeExpired, Message: fmt.Sprintf("nobody answered within %s", timeoutOf(&p.effect)),
	}}}
}

// check says why an answer of a wait cannot be used.
func (p *pending) check(a answer) error {
	if p.effect.Kind != machine.Ask || a.err != nil || a.timeout {
		return nil
	}
	if problem := refuse(p.effect.Question, a.value); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// read reads the answer of a wait.
func (p *pending) read(text []byte) (answer, error) {
	plain, err := ParseValue(text)
	if err != nil {
		return answer{}, err
	}
	a, err := parseAnswer(plain)
	if err != nil {
		return answer{}, err
	}
	return a, p.check(a)
}
