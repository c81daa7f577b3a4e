package users

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// sound is the evidence of one execution that ran a job, and then rested, and asked after both.
func sound() *evidence {
	e := &evidence{
		cycles: 2, ids: []string{"exec_1"}, executions: map[string]execution{"exec_1": {ID: "exec_1", Status: "completed"}},
		jobs:     []procs.Job{{ID: "job_1", State: "SUCCEEDED", Labels: map[string]string{"execution": "exec_1", "step": "job_0_"}}},
		marks:    map[string]string{"job_1": "1\n"},
		answered: map[string]int{"dec_1": 1},
	}
	for _, id := range []string{"dec_1", "dec_2"} {
		q := question{ID: id, Execution: "exec_1", Status: "resolved"}
		q.Votes = append(q.Votes, struct {
			Resolution string `json:"resolution"`
		}{"yes"})
		e.questions = append(e.questions, q)
	}
	for _, step := range []string{"job[0]", "ask[0]", "tell[0]", "rest[1]", "ask[1]", "tell[1]", "which[0]"} {
		for _, edge := range []string{"entered", "exited"} {
			e.happenings = append(e.happenings, of("scaicore.runtime.block."+edge, step, 0))
		}
	}
	for index := range 2 {
		e.happenings = append(e.happenings, of("chaos.cycle", "tell", index))
	}
	return e
}

func of(kind, step string, index int) (h happening) {
	h.Type = kind
	h.Payload.Execution, h.Payload.Step, h.Payload.Data.Index = "exec_1", step, index
	return h
}

func TestEvidence_findsWhatDidNotHappenOnce(t *testing.T) {
	require.Empty(t, sound().faults())
	for says, breaks := range map[string]func(e *evidence){
		`is "" (: ), it should be completed`:             func(e *evidence) { e.executions = nil },
		"no caller has its id":                           func(e *evidence) { e.executions["exec_2"] = execution{Status: "completed"} },
		"was started for the callers 0 and 1":            func(e *evidence) { e.ids = append(e.ids, "exec_1") },
		"the job of exec_1 in cycle 0 was there 2 times": func(e *evidence) { e.jobs = append(e.jobs, e.jobs[0]) },
		"the job of exec_1 in cycle 0 was there 0 times": func(e *evidence) { e.jobs = nil },
		`its runs left "1\n1\n"`:                         func(e *evidence) { e.marks["job_1"] = "1\n1\n" },
		"the cluster does not know it":                   func(e *evidence) { e.marks["job_2"] = "1\n" },
		"is FAILED":                                      func(e *evidence) { e.jobs[0].State = "FAILED" },
		"in cycle 2 was there 1 times":                   func(e *evidence) { e.questions = append(e.questions, e.questions[0]) },
		"2 answers were acknowledged":                    func(e *evidence) { e.answered["dec_1"] = 2 },
		"is resolved with 2 votes":                       func(e *evidence) { e.questions[0].Votes = append(e.questions[0].Votes, e.questions[0].Votes[0]) },
		"is pending":                                     func(e *evidence) { e.questions[1].Status = "pending" },
		"the timer of exec_1 in cycle 1 was there 2 times": func(e *evidence) {
			e.happenings = append(e.happenings, of("scaicore.runtime.block.exited", "rest[1]", 0))
		},
		"the begin of ask of exec_1 in cycle 1 was there 2": func(e *evidence) {
			e.happenings = append(e.happenings, of("scaicore.runtime.block.entered", "ask[1]", 0))
		},
		"the begin of job of exec_1 in cycle 0 was there 0": func(e *evidence) { e.happenings = e.happenings[1:] },
		"the event of exec_1 in cycle 1 was there 0 times":  func(e *evidence) { e.happenings = e.happenings[:len(e.happenings)-1] },
		"the event of exec_1 in cycle 0 was there 2 times":  func(e *evidence) { e.happenings = append(e.happenings, of("chaos.cycle", "tell", 0)) },
		"the block job[0] has failed": func(e *evidence) {
			e.happenings = append(e.happenings, of("scaicore.runtime.block.failed", "job[0]", 0))
		},
		"the question of exec_1 in cycle 1 was there 0 times": func(e *evidence) { e.questions = e.questions[:1] },
	} {
		e := sound()
		breaks(e)
		found := e.faults()
		require.NotEmpty(t, found, says)
		require.Contains(t, found[0]+"\n"+found[len(found)-1], says)
	}
}
