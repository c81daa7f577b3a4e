package users

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// happening is an event of an execution.
type happening struct {
	Type    string `json:"type"`
	Payload struct {
		Execution string `json:"execution_id"`
		Step      string `json:"step"`
		Data      struct {
			Index int `json:"index"`
		} `json:"data"`
	} `json:"payload"`
}

// evidence is the end of the executions of an attack, as the cluster and the files of the jobs have it.
type evidence struct {
	cycles     int
	ids        []string // by the number of the caller
	executions map[string]execution
	jobs       []procs.Job
	marks      map[string]string // what each job wrote, by its id
	questions  []question
	answered   map[string]int
	happenings []happening
}

const runtimeEvents = "scaicore.runtime."

// faults lists what did not happen once.
func (e *evidence) faults() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	numbers := map[string]int{}
	for n, id := range e.ids {
		if other, twice := numbers[id]; twice {
			say("%s was started for the callers %d and %d", id, other, n)
		}
		numbers[id] = n
		if got := e.executions[id]; got.Status != "completed" {
			say("%s is %q (%s: %s), it should be completed", id, got.Status, got.Error.Code, got.Error.Message)
		}
	}
	for id := range e.executions {
		if _, known := numbers[id]; !known {
			say("%s was started, and no caller has its id", id)
		}
	}

	// The things that should be there once, by their names, and the number of those that are there.
	wanted, there := map[string]int{}, map[string]int{}
	name := func(id string, index int, thing string) string {
		return fmt.Sprintf("%s of %s in cycle %d", thing, id, index)
	}
	want := func(id string, index int, thing string) { wanted[name(id, index, thing)] = 1 }
	count := func(id string, index int, thing string) { there[name(id, index, thing)]++ }
	for id, n := range numbers {
		for index := range e.cycles {
			want(id, index, "question")
			want(id, index, "event")
			step := "timer"
			if (n+index)%2 == 0 {
				step = "job"
			}
			want(id, index, step)
			for _, block := range []string{step, "ask", "tell"} {
				want(id, index, "begin of "+block)
				want(id, index, "end of "+block)
			}
		}
	}
	for _, j := range e.jobs {
		var index int
		if _, err := fmt.Sscanf(j.Labels["step"], "job_%d_", &index); err != nil {
			say("%s has the step %q", j.ID, j.Labels["step"])
		}
		count(j.Labels["execution"], index, "job")
		if j.State != "SUCCEEDED" || e.marks[j.ID] != "1\n" {
			say("%s of %s is %s, its runs left %q", j.ID, j.Labels["execution"], j.State, e.marks[j.ID])
		}
	}
	for id, marks := range e.marks {
		if !slices.ContainsFunc(e.jobs, func(j procs.Job) bool { return j.ID == id }) {
			say("a job %s ran (%q), and the cluster does not know it", id, marks)
		}
	}
	asked := map[string]int{}
	for _, q := range e.questions {
		count(q.Execution, asked[q.Execution], "question")
		asked[q.Execution]++
		if q.Status != "resolved" || len(q.Votes) != 1 || e.answered[q.ID] > 1 {
			say("%s of %s is %s with %d votes, %d answers were acknowledged", q.ID, q.Execution, q.Status, len(q.Votes), e.answered[q.ID])
		}
	}
	blocks := map[string]string{"job": "job", "rest": "timer", "ask": "ask", "tell": "tell"}
	for _, h := range e.happenings {
		edge, isBlock := strings.CutPrefix(h.Type, runtimeEvents+"block.")
		block, number, _ := strings.Cut(strings.TrimSuffix(h.Payload.Step, "]"), "[")
		var index int
		if _, err := fmt.Sscan(number, &index); isBlock && blocks[block] != "" && err != nil {
			say("%s has an event of the step %q", h.Payload.Execution, h.Payload.Step)
		}
		switch {
		case h.Type == "chaos.cycle":
			count(h.Payload.Execution, h.Payload.Data.Index, "event")
		case isBlock && edge != "entered" && edge != "exited":
			say("%s: the block %s has %s", h.Payload.Execution, h.Payload.Step, edge)
		case isBlock && blocks[block] != "":
			count(h.Payload.Execution, index, map[string]string{"entered": "begin of ", "exited": "end of "}[edge]+blocks[block])
			if blocks[block] == "timer" && edge == "exited" {
				count(h.Payload.Execution, index, "timer")
			}
		}
	}
	for _, thing := range slices.Sorted(maps.Keys(wanted)) {
		if there[thing] != 1 {
			say("the %s was there %d times", thing, there[thing])
		}
	}
	for _, thing := range slices.Sorted(maps.Keys(there)) {
		if wanted[thing] == 0 {
			say("the %s was there %d times, and should not be", thing, there[thing])
		}
	}
	return all
}
