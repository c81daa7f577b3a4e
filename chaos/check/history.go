package check

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Action is a kind of call.
type Action string

// The actions.
const (
	Submit Action = "submit"
	Get    Action = "get"
	Cancel Action = "cancel"
	Retry  Action = "retry"
)

// Phase is the phase of a job, as far as a client can tell.
type Phase string

// The phases. Live jobs wait, run, or are between two attempts; Canceling ones run and were told to stop.
const (
	Absent    Phase = "absent"
	Live      Phase = "live"
	Canceling Phase = "canceling"
	Succeeded Phase = "succeeded"
	Failed    Phase = "failed"
	Canceled  Phase = "canceled"
)

// byItself has, for each phase, the phases that a job can reach from it without a call, including the phase itself.
var byItself = map[Phase][]Phase{
	Absent:    {Absent},
	Live:      {Live, Succeeded, Failed},
	Canceling: {Canceling, Canceled, Succeeded, Failed},
	Succeeded: {Succeeded},
	Failed:    {Failed},
	Canceled:  {Canceled},
}

// Outcome is the outcome of a call.
type Outcome int

// The outcomes. Refused is an answer: the cluster refused the call with a reason.
const (
	Done Outcome = iota
	Refused
	Unknown
)

// Answer is an answer to a call.
type Answer struct {
	Outcome Outcome
	// Phase and Revision are set for a Get that is Done.
	Phase    Phase
	Revision uint64
}

// History records calls. Their order is the order in which Begin, and the functions that it returned, were called; no
// clock is used.
type History struct {
	mu    sync.Mutex
	clock int64
	calls []*call
}

type call struct {
	client        int
	job           string
	action        Action
	answer        Answer
	called, ended int64
	at            time.Time
}

// Begin records a call of a client; the returned function records the answer. job identifies the job: it is chosen by
// the client at the submit. A call without an answer counts as unknown.
func (h *History) Begin(client int, job string, action Action) (end func(Answer)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	c := &call{client: client, job: job, action: action, answer: Answer{Outcome: Unknown}, called: h.clock, ended: math.MaxInt64, at: time.Now()}
	h.calls = append(h.calls, c)
	return func(a Answer) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.clock++
		c.answer = a
		if a.Outcome != Unknown {
			c.ended = h.clock
		}
	}
}

// Len returns the number of calls.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// register is the model of one job.
type register struct {
	phase    Phase
	revision uint64
}

// Linearizable returns the jobs whose history no order of their calls explains. It gives up after the given time, and
// reports that. It must be called outside a bubble.
func (h *History) Linearizable(within time.Duration) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	byJob := map[string][]porcupine.Operation{}
	for _, c := range h.calls {
		if c.action == Get && c.answer.Outcome == Unknown {
			continue // the call has no information
		}
		byJob[c.job] = append(byJob[c.job], porcupine.Operation{ClientId: c.client, Input: c.action, Call: c.called, Output: c.answer, Return: c.ended, Metadata: c})
	}
	model := (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{phase: Absent}} },
		Step: func(state, input, output any) []any { return step(state.(register), input.(Action), output.(Answer)) },
	}).ToModel()
	var found []string
	deadline := time.Now().Add(within)
	for job, history := range byJob {
		switch porcupine.CheckOperationsTimeout(model, history, max(time.Millisecond, time.Until(deadline))) {
		case porcupine.Illegal:
			found = append(found, fmt.Sprintf("the calls for job %s are not linearizable:\n%s", job, h.tell(job)))
		case porcupine.Unknown:
			found = append(found, fmt.Sprintf("no time was left to check the %d calls for job %s", len(history), job))
		}
	}
	sort.Strings(found)
	return found
}

// tell lists the calls for a job.
func (h *History) tell(job string) string {
	var b strings.Builder
	for _, c := range h.calls {
		if c.job == job {
			ended := "never"
			if c.ended != math.MaxInt64 {
				ended = fmt.Sprint(c.ended)
			}
			fmt.Fprintf(&b, "  %s client %d [%d to %s] %s: %+v\n", c.at.UTC().Format("02 15:04:05.000"), c.client, c.called, ended, c.action, c.answer)
		}
	}
	return b.String()
}

// step returns all states that the job may be in after the call, or none if the call could not have that answer.
func step(s register, action Action, a Answer) []any {
	var next []any
	if a.Outcome == Unknown {
		next = append(next, s) // the call may never have reached the cluster
	}
	for _, phase := range byItself[s.phase] {
		now := register{phase, s.revision}
		switch action {
		case Get:
			if a.Outcome == Refused { // the refusal says that the job does not exist
				if phase == Absent {
					next = append(next, now)
				}
				continue
			}
			if phase == a.Phase && a.Revision >= s.revision && (phase == s.phase || a.Revision > s.revision) {
				next = append(next, register{phase, a.Revision})
			}
		case Submit:
			if phase == Absent && a.Outcome != Refused {
				next = append(next, register{phase: Live})
			}
			if a.Outcome == Refused {
				next = append(next, now)
			}
		case Cancel:
			possible := phase == Live || phase == Canceling
			switch {
			case a.Outcome == Refused && !possible:
				next = append(next, now)
			case a.Outcome != Refused && possible:
				next = append(next, register{Canceling, s.revision}, register{Canceled, s.revision})
			}
		case Retry:
			possible := phase == Failed || phase == Canceled
			switch {
			case a.Outcome == Refused && !possible:
				next = append(next, now)
			case a.Outcome != Refused && possible:
				next = append(next, register{Live, s.revision})
			}
		}
	}
	return next
}
