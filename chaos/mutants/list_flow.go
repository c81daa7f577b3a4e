package main

// flowMutants are mistakes in programs of flows: how they are checked, run and rehearsed.
var flowMutants = []mutant{
	{
		Name: "fuel-changes-the-order", Breaks: "flows.md", File: "flow/machine/fan.go",
		What:    "when fuel ends within a branch, the next one goes on before it",
		Old:     "case yielded, returned:",
		New:     "case yielded:\n\t\t\t\tcontinue\n\t\t\tcase returned:",
		Package: "flow/machine", Tests: []string{"TestFuel_keepsTheOrderOfBranches"},
	},
	{
		Name: "failed-branch-keeps-its-jobs", Breaks: "flows.md", File: "flow/machine/fan.go",
		What: "a branch that has failed keeps its jobs until the others are over",
		Old:  "r.giveUp(k.Body)", New: "",
		Package: "flow/machine", Tests: []string{"TestFailedBranch_givesUpItsWaits"},
	},
	{
		Name: "answered-wait-is-canceled", Breaks: "flows.md", File: "flow/machine/advance.go",
		What: "a wait whose result has come is given up, so a job that is over is canceled",
		Old:  "if _, answered := r.results[*wait]; answered {", New: "if false {",
		Package: "flow/machine", Tests: []string{"TestGiveUp_leavesAnsweredWaits"},
	},
	{
		Name: "retry-forgets-a-finally", Breaks: "flows.md", File: "flow/machine/retry.go",
		What: "a retry by hand forgets the error that a finally still has to report",
		Old:  " && a.Stage != finishing", New: "",
		Package: "flow/machine", Tests: []string{"TestRetryByHand_ofAFinallyThatWasGivenUp"},
	},
	{
		Name: "retry-of-one-branch", Breaks: "flows.md", File: "flow/machine/retry.go",
		What: "a retry by hand leaves what has failed where it is",
		Old:  "\t\tb.Cur = nil\n\t\treturn\n\t}\n\ta.Failed, a.Attempt = false, 0", New: "\t\treturn\n\t}\n\ta.Failed, a.Attempt = false, 0",
		Package: "flow/machine", Tests: []string{"TestRetryByHand_afterTwoBranchesFailed"},
	},
	{
		Name: "handled-failure-is-undone", Breaks: "flows.md", File: "flow/machine/body.go",
		What: "a block whose failure was handled is compensated",
		Old:  "if len(b.Compensate) > 0 && a.Mode == plain {", New: "if len(b.Compensate) > 0 {",
		Package: "flow/machine", Tests: []string{"TestCompensation_ofWhatWasDoneAlone"},
	},
	{
		Name: "frame-is-not-measured", Breaks: "flows.md", File: "flow/machine/advance.go",
		What: "a frame is made before it is known to be small enough",
		Old:  "if r.frame.fits() {", New: "if true {",
		Package: "flow/machine", Tests: []string{"TestFrame_isMeasuredBeforeItIsMade"},
	},
	{
		Name: "budget-of-each-expression", Breaks: "flows.md", File: "flow/machine/body.go",
		What: "each expression of a block has a budget of its own",
		Old:  "	before := r.budget.Ops\n", New: "	r.refresh()\n	before := r.budget.Ops\n",
		Package: "flow/machine", Tests: []string{"TestBudget_isThatOfABlock"},
	},
	{
		Name: "names-outlive-an-iteration", Breaks: "flows.md", File: "flow/check/names.go",
		What: "names that a foreach binds are known behind it",
		Old:  `if below != "body" || b.Kind != ir.Foreach {`, New: "if below != \"\" {",
		Package: "flow/check", Tests: []string{"TestModule_namesOfAForeach"},
	},
	{
		Name: "unknown-fields-are-dropped", Breaks: "flows.md", File: "flow/ir/parse.go",
		What:    "fields of retries, cases and options that do not exist are dropped",
		Old:     "	d := json.NewDecoder(bytes.NewReader(data))\n	d.DisallowUnknownFields()\n	return d.Decode(into)",
		New:     "	d := json.NewDecoder(bytes.NewReader(data))\n	return d.Decode(into)",
		Package: "flow/ir", Tests: []string{"TestParse_refusesWhatItWouldForget"},
	},
	{
		Name: "rehearsal-hides-a-missing-answer", Breaks: "flows.md", File: "flow/rehearse/rehearse.go",
		What: "in a rehearsal time goes on while an answer is missing, until something times out",
		Old:  "case len(r.due) > 0 && r.due[0].at <= r.clock:", New: "case len(r.due) > 0:",
		Package: "flow/rehearse", Tests: []string{"TestMissing_isFoundBeforeATimerFires"},
	},
}
