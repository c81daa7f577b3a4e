package main

// boundMutants are mistakes in what bounds a tenant, an address or a node.
var boundMutants = []mutant{
	{
		Name: "hours-without-end", Breaks: "I26", File: "fsm/work/overdraft/overdraft.go",
		What: "a job without a time limit goes on after its tenant has overdrawn its GPU hours",
		Old:  "if d := next(q, s.Budget(q.Tenant), grace); d.Step != None {", New: "if d := next(q, s.Budget(q.Tenant), grace); d.Step == Warn {",
		Package: "fsm", Tests: []string{"TestHours_jobsWithoutALimitAreWarnedAndStopped"},
	},
	{
		Name: "stopped-without-notice", Breaks: "I26", File: "fsm/work/overdraft/overdraft.go",
		What: "a quota that is lowered stops jobs at once",
		Old:  "if at = max(at, b.Warned+Notice);", New: "if at = max(at, b.Warned);",
		Package: "fsm", Tests: []string{"TestHours_aQuotaThatIsChangedTakesTheWarningBack", "TestHours_anyOrder"},
	},
	{
		Name: "limit-taken-away-unseen", Breaks: "I26", File: "fsm/work/lifecycle/attempt.go",
		What: "a job whose time limit is taken away after the others were stopped goes on",
		Old:  "if old.MaxRuntime != 0 && overdraft.Concerns(j) {", New: "if old.MaxRuntime != 0 && overdraft.Concerns(old) {",
		Package: "fsm", Tests: []string{"TestHours_aLimitThatIsTakenAway", "TestHours_anyOrder"},
	},
	{
		Name: "submissions-unbounded", Breaks: "bounds.md", File: "fsm/work/jobverbs/admit.go",
		What: "a tenant without a quota may have any number of unfinished submissions",
		Old:  "if r := tx.AdmitSubmission(j.Tenant, len(j.Spec)); r != nil {", New: "if r := tx.AdmitSpec(j.Tenant, len(j.Spec)); r != nil {",
		Package: "fsm", Tests: []string{"TestBounds_submissionsOfATenant"},
	},
	{
		Name: "specs-of-elements-counted", Breaks: "bounds.md", File: "fsm/work/figures/sums.go",
		What: "each element of an array that has a row counts as a submission",
		Old:  "if j.Submission() && !j.Terminal() {", New: "if !j.Terminal() {",
		Package: "fsm", Tests: []string{"TestBounds_arraysThatGoOn"},
	},
	{
		Name: "specs-grow-by-updates", Breaks: "bounds.md", File: "fsm/work/jobverbs/update_job.go",
		What: "a change of a job may make its request longer than the bound of its tenant",
		Old:  "if r := tx.AdmitSpec(j.Tenant, len(to.Spec)-len(j.Spec)); r != nil {", New: "if r := tx.AdmitSpec(j.Tenant, 0); r != nil {",
		Package: "fsm", Tests: []string{"TestBounds_specsOfATenant"},
	},
	{
		Name: "bounds-before-their-level", Breaks: "bounds.md", File: "fsm/work/lifecycle/quotas.go",
		What:    "entries of the level before the bounds are held to them, so that replicas of two versions differ",
		Old:     "func (tx *Tx) AdmitSubmission(tenant string, spec int) *kernel.Refusal {\n\tif !tx.Entry.Open(bounds.Gate) {",
		New:     "func (tx *Tx) AdmitSubmission(tenant string, spec int) *kernel.Refusal {\n\tif false {",
		Package: "fsm", Tests: []string{"TestBounds_openWithTheirLevel"},
	},
	{
		Name: "specs-dropped-early", Breaks: "bounds.md", File: "fsm/work/clusterverbs/tick_specs.go",
		What: "the requests of finished jobs are dropped at the next Tick",
		Old:  "at > tx.Now {", New: "at == 0 {",
		Package: "fsm", Tests: []string{"TestBounds_specsOfFinishedJobsGo", "TestBounds_policyOfWhatIsKept"},
	},
	{
		Name: "specs-dropped-at-once", Breaks: "bounds.md", File: "fsm/work/clusterverbs/tick_specs.go",
		What: "one Tick drops any number of requests, and all else waits for it",
		Old:  "if rows >= maxSpecs {", New: "if false {",
		Package: "fsm", Tests: []string{"TestBounds_manySpecsGoInSeveralTicks"},
	},
	{
		Name: "retry-without-a-spec", Breaks: "bounds.md", File: "fsm/work/jobverbs/control.go",
		What: "a job whose request was dropped is retried, and starts nothing",
		Old:  "if j.SpecDropped {\n\t\treturn kernel", New: "if false {\n\t\treturn kernel",
		Package: "fsm", Tests: []string{"TestBounds_specsOfFinishedJobsGo"},
	},
	{
		Name: "dropped-spec-keeps-its-revision", Breaks: "rest.md", File: "fsm/work/clusterverbs/tick_specs.go",
		What: "a client with a copy of a job is told that it is still the same after its request was dropped",
		Old:  "j.Spec, j.SpecDropped, j.Revision = nil, true, tx.Index", New: "j.Spec, j.SpecDropped = nil, true",
		Package: "fsm", Tests: []string{"TestBounds_specsOfFinishedJobsGo"},
	},
	{
		Name: "keep-finished-ignored", Breaks: "bounds.md", File: "fsm/work/policy/policy.go",
		What: "the policy does not say how many finished jobs are kept",
		Old:  "cmp.Or(p.KeepFinished, configured,", New: "cmp.Or(configured,",
		Package: "fsm", Tests: []string{"TestBounds_policyOfWhatIsKept"},
	},
}
