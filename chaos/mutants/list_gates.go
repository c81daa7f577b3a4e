package main

// gateMutants are mistakes about the gates at which people decide whether a job goes on.
var gateMutants = []mutant{
	{
		Name: "gate-asks-twice", Breaks: "workloads.md", File: "fsm/work/lifecycle/gates.go",
		What: "a gate that was passed is asked about again by the attempt that comes to it again",
		Old:  "d.Status == executions.Pending || d.Path == asked.Path && d.Passed()", New: "d.Status == executions.Pending",
		Package: "fsm", Tests: []string{"TestGate_theJobWaitsWithoutGPUs"},
	},
	{
		Name: "gate-answered-too-early", Breaks: "workloads.md", File: "fsm/work/lifecycle/attempt.go",
		What: "a job whose gate is answered before it has stopped stays paused",
		Old:  "\t\ttx.passGate(j)\n", New: "",
		Package: "fsm", Tests: []string{"TestGate_answeredBeforeTheJobHasStopped"},
	},
	{
		Name: "gate-is-walked-around", Breaks: "workloads.md", File: "fsm/work/jobverbs/control.go",
		What: "a user resumes a job that waits for an answer",
		Old:  "d := executions.Of(tx.Entry.State).ClosedGate(j.ID); d != nil", New: "d := executions.Of(tx.Entry.State).ClosedGate(0); d != nil",
		Package: "fsm", Tests: []string{"TestGate_theJobWaitsWithoutGPUs"},
	},
	{
		Name: "gate-outlives-its-job", Breaks: "I22", File: "fsm/executions/changes.go",
		What: "people are asked about a job that is over",
		Old:  "\tsettleGates(tx, job, true)\n\twakeWaiters", New: "\twakeWaiters",
		Package: "fsm", Tests: []string{"TestGate_theJobIsCanceledOrForgotten"},
	},
	{
		Name: "restarted-job-is-over", Breaks: "failure-model.md", File: "fsm/work/lifecycle/attempt.go",
		What: "a job that is preempted, drained or lost, and gets another attempt, is over for the execution that waits for it",
		Old:  "\texecutions.JobMoved(tx.Entry, j.ID, to)\n", New: "\texecutions.JobMoved(tx.Entry, j.ID, to)\n\tif j.Terminal() {\n\t\texecutions.JobEnded(tx.Entry, j.ID, to)\n\t}\n",
		Package: "fsm", Tests: []string{"TestExecution_aJobThatIsRestartedIsNotOver"},
	},
	{
		Name: "gate-undoes-a-pause", Breaks: "workloads.md", File: "fsm/executionverbs/gate.go",
		What: "an answer lets a job go on that a user has paused",
		Old:  "case passed && d.Kept:", New: "case false:",
		Package: "fsm", Tests: []string{"TestGate_aUserPausesTheJob"},
	},
	{
		Name: "gate-cancel-goes-on", Breaks: "workloads.md", File: "fsm/executions/gate.go",
		What: "an answer that cancels the job lets it go on",
		Old:  "return !o.Cancels", New: "return true",
		Package: "fsm", Tests: []string{"TestGate_anAnswerMayCancel"},
	},
	{
		Name: "gate-reported-once-and-lost", Breaks: "workloads.md", File: "agent/observe/journal.go",
		What: "a gate that was found but not acknowledged is lost when the agent restarts",
		Old:  " || body.GetGate() != nil", New: "",
		Package: "agent/observe", Tests: []string{"TestGates_outliveTheAgent"},
	},
}
