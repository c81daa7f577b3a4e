package tables

import (
	"math/bits"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
)

// Check reports what does not hold of the tables: the invariants of the design that one state can show, and that
// everything derived is as if computed again.
func Check(frozen *kernel.State, report kernel.Report) {
	s := &Of(frozen).rows
	checkQueues(s, report)
	checkQuotas(s, report)
	checkAccounts(s, report)
	s.CheckPolicy(report)
	checkNodes(s, report)
	checkJobs(s, report)
	checkLeases(s, report)
	s.CheckClaims(s.Job, report)
	s.CheckWindows(s.LeasesOn, s.Job, report)
	s.CheckPromises(s, func(id ident.Job) bool { _, claimed := s.ClaimOf(id); return claimed }, report)
	checkTypes(s, report)
	checkBudgets(s, report)
	checkGuarantees(s, report)
	checkCheckpoints(s, report)
	s.CheckKeys(s.Find, s.meta.Dropped != 0, report)
	s.CheckResults(s.Job, report)
	s.CheckNotices(s.jobs.rows.Rows(), report)
	checkReasons(s, report)
}

func checkJobs(s *rows, report kernel.Report) {
	var counts work.Counts
	active, timers, finished, dependents, awaits, ran, recovering, needed, ended, specs := 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	for j := range s.jobs.rows.Rows() {
		j.Tally(&counts, 1)
		checkJob(s, j, report)
		if j.Live() {
			active++
			if !s.jobs.active.Has(j.ID) {
				report("%s is %s and not listed as active", j.ID, j.State)
			}
		}
		if at := j.Timer(); at != 0 {
			timers++
			if !s.jobs.timers.Has(jobTimer{at, j.ID}) {
				report("%s has no timer at %d", j.ID, at)
			}
		}
		if at := j.Settles(); at != 0 {
			recovering++
			if !s.jobs.recovering.Has(jobTimer{at, j.ID}) {
				report("%s is not listed as held since the recovery", j.ID)
			}
		}
		if j.Foldable() {
			ended++
			if !s.jobs.ended.Has(endedOf(j)) {
				report("%s is not listed as an element whose row may go", j.ID)
			}
		}
		if j.Terminal() {
			finished++
			if !s.jobs.finished.Has(finishedJob{j.FinishedAt, j.ID}) {
				report("%s is not listed as finished", j.ID)
			}
		}
		if j.SpecGoes() {
			if specs++; !s.jobs.specs.Has(finishedJob{j.FinishedAt, j.ID}) {
				report("%s is not listed as one whose spec is to go", j.ID)
			}
		}
		for i, c := range j.Needs() {
			if c == 0 || i > 0 && c == j.Needs()[0] {
				continue
			}
			if needed++; !s.Needed(c) {
				report("%s needs %s, which is not listed", j.ID, c)
			}
		}
		if j.WaitsForOthers() {
			distinct := map[ident.Job]bool{}
			for _, d := range j.Dependencies {
				distinct[d.Job] = true
				if !s.jobs.dependents.Has(dependentJob{d.Job, j.ID}) {
					report("%s is not listed as waiting for %s", j.ID, d.Job)
				}
			}
			dependents += len(distinct)
		}
		awaits += checkAwaits(s, j, report)
		if j.RanThrough() {
			ran++
			n, _ := s.jobs.tenants.Get(tenantNumber{name: j.Tenant})
			if !s.jobs.ran.Has(ranJob{n.number, work.Stem(j.Name), j.ID}) {
				report("I11: %s is not listed among what its tenant ran", j.ID)
			}
		}
	}
	if counts != s.jobs.counts {
		report("counts are %v, counted again %v", s.jobs.counts, counts)
	}
	sizes := [...]struct {
		what       string
		have, want int
	}{
		{"active", s.jobs.active.Len(), active},
		{"specs", s.jobs.specs.Len(), specs},
		{"timers", s.jobs.timers.Len(), timers},
		{"finished", s.jobs.finished.Len(), finished},
		{"dependents", s.jobs.dependents.Len(), dependents},
		{"awaited tasks", s.jobs.awaits.Len(), awaits},
		{"jobs that ran", s.jobs.ran.Len(), ran},
		{"needed checkpoints", s.NeededCount(), needed},
		{"jobs held since the recovery", s.jobs.recovering.Len(), recovering},
		{"elements whose rows may go", s.jobs.ended.Len(), ended},
	}
	for _, z := range sizes {
		if z.have != z.want {
			report("the index of %s has %d entries instead of %d", z.what, z.have, z.want)
		}
	}
	checkArrays(s, report)
	s.CheckWaiting(s.Jobs(false, 0), s.Job, s.laneOf, report)
	s.jobs.shapes.Check(s.jobs.rows.Rows(), report)
	s.jobs.groups.Check(s.jobs.rows.Rows(), report)
}

func checkJob(s *rows, j *work.Job, report kernel.Report) {
	if j.State <= v1.JobState_UNSPECIFIED || j.State > v1.JobState_LOST {
		report("%s has the state %d", j.ID, j.State)
	}
	if j.Terminal() && len(j.Credentials) > 0 {
		report("I11: %s is %s and its credentials are still there", j.ID, j.State)
	}
	leased := 0
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if int(t.Rank) != i {
			report("%s: task %d has rank %d", j.ID, i, t.Rank)
		}
		if t.Transfer != "" && (t.Ran() || t.State == v1.TaskState_ENDED) || len(t.Transfer) > work.MaxTransfer {
			report("%s: task %d is %s, and its data is said to be in flight", j.ID, i, t.State)
		}
		l, ok := s.leases.rows.Get(LeaseKey{t.Node, j.ID, t.Rank})
		if !ok {
			continue
		}
		leased++
		if l.Token != j.Token || l.Attempt != j.Attempt || l.GPUs != t.GPUs {
			report("I2: %s rank %d has a lease of attempt %d, token %d; the job is at %d, %d", j.ID, i, l.Attempt, l.Token, j.Attempt, j.Token)
		}
	}
	switch {
	case j.Live() && (leased != int(j.Shape.Nodes) || len(j.Tasks) != leased):
		report("I2: %s is %s with %d of %d leases", j.ID, j.State, leased, j.Shape.Nodes)
	case !j.Live() && leased != 0:
		report("I2: %s is %s and has %d leases", j.ID, j.State, leased)
	case j.Live() && work.AllEnded(j.Tasks):
		report("%s is %s and all its tasks have ended", j.ID, j.State)
	case !j.Live() && (j.Stop != 0 || j.Ending != nil) && !(j.Array != nil && j.State == v1.JobState_RUNNING && j.Stop == v1.StopReason_CANCEL):
		report("%s is %s and being stopped", j.ID, j.State)
	case j.State == v1.JobState_QUEUED && j.Tasks != nil:
		report("%s is QUEUED and has tasks", j.ID)
	case j.State != v1.JobState_QUEUED && j.Held != 0 && !(j.Array != nil && j.State == v1.JobState_RUNNING && j.Held&^(work.HoldRecovery|work.HoldUser) == 0):
		report("%s is %s and held", j.ID, j.State)
	case (j.Held&work.HoldRecovery != 0) != (j.SettlesAt != 0):
		report("%s is held by %b and settles at %d", j.ID, j.Held, j.SettlesAt)
	case j.GoOn && (!j.Live() || j.Stop != v1.StopReason_PAUSE):
		report("%s is %s, and goes on after a pause", j.ID, j.State)
	case j.Held&work.HoldBackoff != 0 && j.Streak.After == 0:
		report("%s pauses without an end", j.ID)
	}
	if j.Streak.Fruitless > work.MaxFruitless || j.Streak.Fruitless == work.MaxFruitless && !j.Terminal() {
		report("%s is %s after %d attempts in a row that brought nothing new", j.ID, j.State, j.Streak.Fruitless)
	}
	if j.Live() && j.Token > s.meta.Recovered && j.Created <= s.meta.Recovered && s.meta.Recovered != 0 && s.nodes.unheard.Len() > 0 {
		report("I2: %s was given attempt %d since the recovery, and %d nodes have not said yet what they run", j.ID, j.Attempt, s.nodes.unheard.Len())
	}
	if j.Terminal() != (j.FinishedAt != 0) && s.meta.Now != 0 {
		report("I5: %s is %s and FinishedAt is %d", j.ID, j.State, j.FinishedAt)
	}
	// Tokens are indices of later and later grants, all after the creation.
	last := j.Created
	for _, p := range j.Past {
		if p.Token <= last || p.Token > j.Token {
			report("I3: %s: attempt %d had token %d, after %d and before %d", j.ID, p.Attempt, p.Token, last, j.Token)
		}
		last = p.Token
	}
	current := j.Attempt > 0 && (len(j.Past) == 0 || j.Past[len(j.Past)-1].Attempt < j.Attempt)
	if current && j.Token <= last {
		report("I3: %s: attempt %d has token %d after %d", j.ID, j.Attempt, j.Token, last)
	}
	if j.Token < uint64(j.Attempt) || j.Token > s.meta.Index || j.Revision > s.meta.Index {
		report("I3: %s: attempt %d, token %d, revision %d at index %d", j.ID, j.Attempt, j.Token, j.Revision, s.meta.Index)
	}
	if c := j.LastCheckpoint; c != 0 {
		if row, ok := s.Checkpoint(c); !ok || row.Job != j.ID || !row.Resumable() {
			report("I9: %s: its last checkpoint %s is not registered, or nothing goes on from it", j.ID, c)
		}
	}
}

// checkAwaits holds that what a job waits to hear of was lost on good grounds, and says on how many nodes that is.
func checkAwaits(s *rows, j *work.Job, report kernel.Report) int {
	nodes := map[string]bool{}
	tasks := map[work.TaskRef]bool{}
	for i := range j.Awaits {
		a := &j.Awaits[i]
		nodes[a.Node] = true
		ref := work.TaskRef{Job: j.ID, Attempt: a.Attempt, Rank: a.Rank, Token: a.Token}
		switch _, known := s.Node(a.Node); {
		case tasks[ref]:
			report("%s waits for rank %d of attempt %d twice", j.ID, a.Rank, a.Attempt)
		case !known:
			report("%s waits for %s, which there is not", j.ID, a.Node)
		case !s.jobs.awaits.Has(awaitingJob{a.Node, j.ID}):
			report("%s is not listed as waiting for %s", j.ID, a.Node)
		case a.Attempt == 0 || a.Attempt > j.Attempt || a.Token > j.Token || a.Attempt == j.Attempt && a.Token != j.Token:
			report("I3: %s waits for attempt %d, token %d; it is at %d, %d", j.ID, a.Attempt, a.Token, j.Attempt, j.Token)
		case a.Attempt == j.Attempt && int(a.Rank) < len(j.Tasks) && j.Tasks[a.Rank].State != v1.TaskState_ENDED:
			report("I2: %s: rank %d is %s and is waited for as lost", j.ID, a.Rank, j.Tasks[a.Rank].State)
		case a.Roster > s.meta.RosterVersion:
			report("%s: %s had acknowledged a roster of index %d; the newest is %d", j.ID, a.Node, a.Roster, s.meta.RosterVersion)
		case a.Loss.How != work.LossDeclared && a.Loss.How != work.LossGivenUp:
			report("I6: %s waits for %s on the grounds %d", j.ID, a.Node, a.Loss.How)
		}
		tasks[ref] = true
		checkLoss(j, &a.Loss, report)
	}
	if e := j.Ending; e != nil {
		checkLoss(j, e.Loss, report)
	}
	for i := range j.Past {
		p := &j.Past[i]
		if p.Loss != nil && p.ErrorType != v1.ErrorType_NODE_LOST {
			report("I6: %s: attempt %d was lost and ended by %s", j.ID, p.Attempt, p.ErrorType)
		}
		checkLoss(j, p.Loss, report)
	}
	return len(nodes)
}

// checkLoss holds that a declaration had a majority and an expired lease.
func checkLoss(j *work.Job, l *work.Loss, report kernel.Report) {
	if l == nil || l.How != work.LossDeclared {
		return
	}
	if 2*int(l.Votes) <= int(l.Voters) || l.Silent < j.SilenceUntilLost() {
		report("I6: %s was declared lost with %d votes of %d, after %d of %d ns of silence", j.ID, l.Votes, l.Voters, l.Silent, j.SilenceUntilLost())
	}
}

func checkLeases(s *rows, report kernel.Report) {
	want := map[string]*work.NodeUse{}
	for l := range s.Leases() {
		j, ok := s.Job(l.Job)
		if !ok || !j.Live() || int(l.Rank) >= len(j.Tasks) || j.Tasks[l.Rank].Node != l.Node {
			report("I2: a lease of %s rank %d on %s that no live task has", l.Job, l.Rank, l.Node)
		}
		u := want[l.Node]
		if u == nil {
			u = &work.NodeUse{}
			want[l.Node] = u
		}
		if (u.Exclusive|u.Shared)&l.GPUs != 0 && l.FractionMilli == 0 || u.Exclusive&l.GPUs != 0 {
			report("I1: %s: a GPU of %b is in another lease too", l.Node, l.GPUs)
		}
		u.Add(l)
		for m := u.Shared; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros64(m); u.Milli[i] > 1000 {
				report("I1: %s: GPU %d is leased to %d thousandths", l.Node, i, u.Milli[i])
			}
		}
	}
	for c := range s.Claims() {
		for i := range c.Tasks {
			if want[c.Tasks[i].Node] == nil {
				want[c.Tasks[i].Node] = &work.NodeUse{}
			}
			want[c.Tasks[i].Node].Claim(c.Of(i))
		}
	}
	inuse.FiguresOf(&s.leases.use).CheckUse(want, report)
}

func checkNodes(s *rows, report kernel.Report) {
	away, timers, lost, unheard := 0, 0, 0, 0
	total := accounts.Amount{}
	for n := range s.Nodes() {
		total.Add(n.Amount())
		want := v1.NodeState_READY
		use := inuse.FiguresOf(&s.leases.use).Use(n.ID)
		switch {
		case n.LostSince != 0:
			want = v1.NodeState_LOST
		case n.UnreachableSince != 0:
			want = v1.NodeState_UNREACHABLE
		case n.Drain != nil && use.Tasks == 0:
			want = v1.NodeState_DRAINED
		case n.Drain != nil:
			want = v1.NodeState_DRAINING
		case n.Unfit != "":
			want = v1.NodeState_UNFIT
		}
		if n.State != want {
			report("%s is %s and should be %s", n.ID, n.State, want)
		}
		if n.UnreachableSince != 0 {
			away++
		}
		if n.LostSince != 0 {
			lost++
		}
		if n.Unheard {
			unheard++
		}
		switch {
		case n.Unheard && (n.UnreachableSince == 0 || s.meta.Recovered == 0):
			report("%s has not been heard of since index %d, and can be reached", n.ID, s.meta.Recovered)
		case n.LostSince != 0 && n.UnreachableSince == 0:
			report("I6: %s is lost and can be reached", n.ID)
		case n.UnreachableSince != 0 && n.RosterSince != 0:
			report("%s cannot be reached and is on the roster", n.ID)
		case n.RosterSince > s.meta.RosterVersion, n.RosterAcked > s.meta.RosterVersion:
			report("%s is on the roster since %d and has acknowledged %d; the newest is %d", n.ID, n.RosterSince, n.RosterAcked, s.meta.RosterVersion)
		case n.EnabledAt > s.meta.Index:
			report("%s was enabled at index %d, after %d", n.ID, n.EnabledAt, s.meta.Index)
		}
		if n.Timer() != 0 {
			timers++
		}
	}
	if uint64(lost) > s.meta.NodesLost {
		report("I6: %d nodes are lost, %d were declared lost", lost, s.meta.NodesLost)
	}
	if s.meta.RosterVersion > s.meta.Index {
		report("the roster is of index %d, after %d", s.meta.RosterVersion, s.meta.Index)
	}
	if unheard != s.nodes.unheard.Len() {
		report("%d nodes were not heard of, %d are listed", unheard, s.nodes.unheard.Len())
	}
	if away != s.nodes.away.Len() || timers != s.nodes.timers.Len() {
		report("%d nodes away, %d listed; %d timers, %d listed", away, s.nodes.away.Len(), timers, s.nodes.timers.Len())
	}
	if total != s.nodes.total {
		report("the nodes have %v together, counted again %v", s.nodes.total, total)
	}
}

func checkCheckpoints(s *rows, report kernel.Report) {
	checkpoints.Check(&s.Tables, report)
	for c := range s.Checkpoints() {
		j, ok := s.Job(c.Job)
		if !ok || j.Tenant != c.Tenant {
			report("I9: %s belongs to no job of tenant %q", c.ID, c.Tenant)
			continue
		}
		known := c.Attempt == j.Attempt && c.Token == j.Token ||
			slices.ContainsFunc(j.Past, func(p work.PastAttempt) bool { return p.Attempt == c.Attempt && p.Token == c.Token })
		if !known && len(j.Past) < work.MaxPastAttempts {
			report("I9: %s is of attempt %d, token %d, which %s never had", c.ID, c.Attempt, c.Token, j.ID)
		}
		if c.Token > j.Token {
			report("I9: %s came under token %d, after %d of %s", c.ID, c.Token, j.Token, c.Job)
		}
		if c.Digest == "" {
			report("I9: %s has no manifest", c.ID)
		}
	}
}
