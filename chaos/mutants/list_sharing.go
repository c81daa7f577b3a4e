package main

// sharingMutants are mistakes in how the cluster is shared over time: preemption, claims, windows, arrays, limits,
// schedules.
var sharingMutants = []mutant{
	{
		Name: "more-victims-than-needed", Breaks: "scheduling.md", File: "fsm/work/jobverbs/preempt.go",
		What: "jobs are stopped whose GPUs are not needed",
		Old:  "if on && wouldFit(tx, j, &places[i], others) != nil {", New: "if on {",
		Package: "fsm", Tests: []string{"TestPreempt_refusals"},
	},
	{
		Name: "protection-ignored", Breaks: "scheduling.md", File: "fsm/work/jobverbs/preempt.go",
		What: "an attempt that began a moment ago is stopped for another job",
		Old:  "left := at.ProtectedUntil(protect) - tx.Now; left > 0", New: "left := at.ProtectedUntil(protect) - tx.Now; left > 0 && at.Priority > 10",
		Package: "fsm", Tests: []string{"TestPreempt_whoIsProtected"},
	},
	{
		Name: "the-urgent-are-preempted", Breaks: "scheduling.md", File: "fsm/work/jobverbs/preempt.go",
		What: "a job is stopped for one of lower priority",
		Old:  "case at.Priority > j.Priority || ", New: "case ",
		Package: "fsm", Tests: []string{"TestPreempt_refusals"},
	},
	{
		Name: "granted-before-all-have-left", Breaks: "I12", File: "fsm/work/lifecycle/claims.go",
		What: "what is kept is given up when the first victim has left",
		Old:  "if len(c.Victims) > 0 {", New: "if len(c.Victims) > 1 {",
		Package: "fsm", Tests: []string{"TestPreempt_keepsThePlacesUntilTheyAreGranted"},
	},
	{
		Name: "kept-for-ever", Breaks: "I12", File: "fsm/work/jobverbs/preempt.go",
		What: "places stay kept although a victim does not leave",
		Old:  "tx.Now + 2*longest + claims.Slack,", New: "tx.Now + 2*longest + claims.Slack + 1<<60,",
		Package: "fsm", Tests: []string{"TestPreempt_theWindowCloses"},
	},
	{
		Name: "more-elements-than-may", Breaks: "I13", File: "fsm/work/lifecycle/array.go",
		What: "one more element of an array runs than max_parallel",
		Old:  "a.Array.Rows.Live >= j.MaxParallel {", New: "a.Array.Rows.Live > j.MaxParallel {",
		Package: "fsm", Tests: []string{"TestArray_runsNoMoreThanMayAndFoldsWhatIsOver"},
	},
	{
		Name: "promised-twice", Breaks: "I14", File: "fsm/work/jobverbs/promise.go",
		What: "the same GPUs are promised to two jobs",
		Old:  "if node := taken.Enter(p); node != \"\" {", New: "if node := taken.Enter(p); node == \"\" && p == nil {",
		Package: "fsm", Tests: []string{"TestPromises_refusals"},
	},
	{
		Name: "window-not-checked", Breaks: "I15", File: "fsm/work/lifecycle/windows.go",
		What: "a job is placed on a node that a maintenance or a reservation keeps from it",
		Old:  "if !w.Admits(j, tx.Now) {", New: "if false {",
		Package: "fsm", Tests: []string{"TestWindows_whoIsPlacedBefore"},
	},
	{
		Name: "promise-over-a-window", Breaks: "I15", File: "scheduler/backfill.go",
		What: "a promised job is planned on a node that a window keeps from it",
		Old:  "w.Has(n.ID) && !w.Admits(k.job, f.now)", New: "w.Has(n.ID) && !w.Admits(k.job, f.now) && false",
		Package: "scheduler", Tests: []string{"TestBackfill_aWindowKeepsWhatWasPromised"},
	},
	{
		Name: "limits-that-moved-unseen", Breaks: "scheduling.md", File: "scheduler/quota/stand.go",
		What: "a class waits on at limits that have room again",
		Old:  "s.numbers[at], *moved = n, true", New: "s.numbers[at] = n",
		Package: "scheduler", Tests: []string{"TestPlanner_classesWaitForRoomInTheirLimits"},
	},
	{
		Name: "window-that-began-unseen", Breaks: "I15", File: "scheduler/arrangement.go",
		What: "a planner looks at windows when they change, and not when their time comes",
		Old:  "s.since <= now && now < s.next {", New: "s.since <= now {",
		Package: "scheduler", Tests: []string{"TestPlanner_aWindowKeepsItsNodesWhenItsTimeComes"},
	},
	{
		Name: "node-that-changed-unseen", Breaks: "scheduling.md", File: "fsm/work/inuse/inuse.go",
		What: "a planner goes on with places that are taken, because the state does not list their node as changed",
		Old:  "		w.changed.Add(u.node)\n", New: "",
		Package: "scheduler", Tests: []string{"TestArrivals_noInvariantIsBroken"},
	},
	{
		Name: "guarantee-that-hides-a-sibling", Breaks: "scheduling.md", File: "scheduler/order/users.go",
		What: "a lane stands for those of a user although a queue below another one has a guarantee",
		Old:  "if t.nested {", New: "if t.nested && false {",
		Package: "scheduler", Tests: []string{"TestPlanner_aGuaranteeBelowAQueue"},
	},
	{
		Name: "earliest-end-is-the-latest", Breaks: "scheduling.md", File: "fsm/work/promises/promise.go",
		What: "a class of which some job could end before a reserved start is taken for one without hope",
		Old:  "(t - 1).Limit()", New: "t.Limit()",
		Package: "fsm/work/promises", Tests: []string{"TestEarliest_isNotAfterAnyEnd"},
	},
	{
		Name: "reserved-though-excluded", Breaks: "scheduling.md", File: "scheduler/place/bar.go",
		What: "a job gets a reserved node that it excludes",
		Old:  "f.spent[w] |= ^word", New: "f.spent[w] = ^word",
		Package: "scheduler", Tests: []string{"TestPlan_reservedNodesMayBeExcluded"},
	},
	{
		Name: "guaranteed-twice", Breaks: "I16", File: "fsm/work/jobverbs/preempt.go",
		What: "what a queue is guaranteed is taken for another one",
		Old:  "if at, queue := b.Protects(j, leave, p.Reclaim); at != nil {", New: "if at, queue := b.Protects(j, leave, p.Reclaim); at != nil && false {",
		Package: "fsm", Tests: []string{"TestPreempt_reclaimsWhatIsGuaranteed"},
	},
	{
		Name: "hold-of-a-busy-place", Breaks: "I17", File: "fsm/work/lifecycle/claims.go",
		What: "places are held that the job could not use",
		Old:  "return ok && work.CheckTask(n, tx.InUse(t.Node), j.Shape, t.GPUs) == nil", New: "return ok && n != nil",
		Package: "fsm", Tests: []string{"TestHold_forWhom", "TestHold_afterALostNode"},
	},
	{
		Name: "due-twice", Breaks: "I18", File: "fsm/scheduleverbs/run.go",
		What: "another leader runs a schedule once more for the same time",
		Old:  "case old.Paused, old.Next != c.Due, c.For < c.Due,", New: "case old.Paused, c.For < c.Due,",
		Package: "fsm", Tests: []string{"TestSchedules_oneRunForEachTime"},
	},
	{
		Name: "estimates-of-others", Breaks: "I11", File: "coordinator/forecast/errors.go",
		What: "how wrong the estimates of one tenant's jobs were is told to others",
		Old:  "	of := e.tenants[tenant]\n	if of == nil || len(of.off) == 0 {", New: "	of := e.tenants[tenant]\n	for _, o := range e.tenants {\n		if len(o.off) > 0 {\n			of = o\n		}\n	}\n	if of == nil || len(of.off) == 0 {",
		Package: "coordinator", Tests: []string{"TestCluster_errorsOfEstimates"},
	},
}
