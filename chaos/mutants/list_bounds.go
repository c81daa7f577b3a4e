package main

// boundMutants are mistakes in what bounds a tenant, an address or a node.
var boundMutants = []mutant{
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
}
