package fsm

import (
	"fmt"
	"math/bits"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxFindings bounds what Check reports.
const maxFindings = 50

// Check says what does not hold of a state that always should: the invariants of the design that one state can show,
// and that everything derived is as if computed anew. Empty: all is well. It walks over everything.
func Check(v *View) []string {
	var found []string
	report := func(format string, args ...any) {
		if len(found) < maxFindings {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	for _, d := range domains {
		d.check(&v.state, func(format string, args ...any) { report(d.name+": "+format, args...) })
	}
	var sum uint64
	for _, d := range domains {
		for _, r := range d.records {
			sum += r.recount(&v.state)
		}
	}
	if sum != v.Hash() {
		report("I8: the running hash is %016x, computed anew it is %016x", v.Hash(), sum)
	}
	return found
}

func checkJobs(s *state, report func(string, ...any)) {
	var counts Counts
	waiting, active, timers, finished, dependents, awaits, ran, recovering := 0, 0, 0, 0, 0, 0, 0, 0
	for j := range s.jobs.rows.rows() {
		counts[j.State&15]++
		checkJob(s, j, report)
		if j.Waiting() {
			waiting++
		}
		if j.Live() {
			active++
			if !s.jobs.active.has(j.ID) {
				report("%s is %s and not listed as active", j.ID, j.State)
			}
		}
		if at := j.timer(); at != 0 {
			timers++
			if !s.jobs.timers.has(jobTimer{at, j.ID}) {
				report("%s has no timer at %d", j.ID, at)
			}
		}
		if at := j.settles(); at != 0 {
			recovering++
			if !s.jobs.recovering.has(jobTimer{at, j.ID}) {
				report("%s is not listed as held since the recovery", j.ID)
			}
		}
		if j.Terminal() {
			finished++
			if !s.jobs.finished.has(finishedJob{j.FinishedAt, j.ID}) {
				report("%s is not listed as finished", j.ID)
			}
		}
		if j.waitsForOthers() {
			distinct := map[JobID]bool{}
			for _, d := range j.Dependencies {
				distinct[d.Job] = true
				if !s.jobs.dependents.has(dependentJob{d.Job, j.ID}) {
					report("%s is not listed as waiting for %s", j.ID, d.Job)
				}
			}
			dependents += len(distinct)
		}
		awaits += checkAwaits(s, j, report)
		if j.ranThrough() {
			ran++
			n, _ := s.jobs.tenants.tree.Get(tenantNumber{name: j.Tenant})
			if !s.jobs.ran.has(ranJob{n.number, Stem(j.Name), j.ID}) {
				report("I11: %s is not listed among what its tenant ran", j.ID)
			}
		}
	}
	if counts != s.jobs.counts {
		report("counts are %v, counted anew %v", s.jobs.counts, counts)
	}
	sizes := [...]struct {
		what       string
		have, want int
	}{
		{"waiting", s.jobs.waiting.len(), waiting},
		{"active", s.jobs.active.len(), active},
		{"timers", s.jobs.timers.len(), timers},
		{"finished", s.jobs.finished.len(), finished},
		{"dependents", s.jobs.dependents.len(), dependents},
		{"awaited tasks", s.jobs.awaits.len(), awaits},
		{"jobs that ran", s.jobs.ran.len(), ran},
		{"jobs held since the recovery", s.jobs.recovering.len(), recovering},
	}
	for _, z := range sizes {
		if z.have != z.want {
			report("the index of %s has %d entries instead of %d", z.what, z.have, z.want)
		}
	}
	checkClasses(s, report)
	checkGroups(s, report)
	checkBlocks(s, report)
}

func checkJob(s *state, j *Job, report func(string, ...any)) {
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
		if t.Transfer != "" && (t.ran() || t.State == v1.TaskState_ENDED) || len(t.Transfer) > MaxTransfer {
			report("%s: task %d is %s, and its data is said to be on its way", j.ID, i, t.State)
		}
		l, ok := s.leases.rows.get(leaseKey{t.Node, j.ID, t.Rank})
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
	case j.Live() && allEnded(j.Tasks):
		report("%s is %s and all its tasks have ended", j.ID, j.State)
	case !j.Live() && (j.Stop != 0 || j.Ending != nil):
		report("%s is %s and being stopped", j.ID, j.State)
	case j.State == v1.JobState_QUEUED && j.Tasks != nil:
		report("%s is QUEUED and has tasks", j.ID)
	case j.State != v1.JobState_QUEUED && j.Held != 0:
		report("%s is %s and held", j.ID, j.State)
	case (j.Held&HoldRecovery != 0) != (j.SettlesAt != 0):
		report("%s is held by %b and settles at %d", j.ID, j.Held, j.SettlesAt)
	case j.Held&HoldBackoff != 0 && j.Streak.After == 0:
		report("%s pauses without an end", j.ID)
	}
	if j.Streak.Fruitless > MaxFruitless || j.Streak.Fruitless == MaxFruitless && !j.Terminal() {
		report("%s is %s after %d attempts in a row that brought nothing new", j.ID, j.State, j.Streak.Fruitless)
	}
	if j.Live() && j.Token > s.meta.Recovered && j.Created <= s.meta.Recovered && s.meta.Recovered != 0 && s.nodes.unheard.len() > 0 {
		report("I2: %s was given attempt %d since the recovery, and %d nodes have not said yet what they run", j.ID, j.Attempt, s.nodes.unheard.len())
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
		if row, ok := s.Checkpoint(c); !ok || row.Job != j.ID {
			report("I9: %s: its last checkpoint %s is not registered", j.ID, c)
		}
	}
}

// checkAwaits holds that what a job waits to hear of was lost on good grounds, and says on how many nodes that is.
func checkAwaits(s *state, j *Job, report func(string, ...any)) int {
	nodes := map[string]bool{}
	tasks := map[TaskRef]bool{}
	for i := range j.Awaits {
		a := &j.Awaits[i]
		nodes[a.Node] = true
		ref := TaskRef{j.ID, a.Attempt, a.Rank, a.Token}
		switch _, known := s.Node(a.Node); {
		case tasks[ref]:
			report("%s waits for rank %d of attempt %d twice", j.ID, a.Rank, a.Attempt)
		case !known:
			report("%s waits for %s, which there is not", j.ID, a.Node)
		case !s.jobs.awaits.has(awaitingJob{a.Node, j.ID}):
			report("%s is not listed as waiting for %s", j.ID, a.Node)
		case a.Attempt == 0 || a.Attempt > j.Attempt || a.Token > j.Token || a.Attempt == j.Attempt && a.Token != j.Token:
			report("I3: %s waits for attempt %d, token %d; it is at %d, %d", j.ID, a.Attempt, a.Token, j.Attempt, j.Token)
		case a.Attempt == j.Attempt && int(a.Rank) < len(j.Tasks) && j.Tasks[a.Rank].State != v1.TaskState_ENDED:
			report("I2: %s: rank %d is %s and is waited for as lost", j.ID, a.Rank, j.Tasks[a.Rank].State)
		case a.Roster > s.meta.RosterVersion:
			report("%s: %s had acknowledged a roster of index %d; the newest is %d", j.ID, a.Node, a.Roster, s.meta.RosterVersion)
		case a.Loss.How != LossVerdict && a.Loss.How != LossGivenUp:
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

// checkLoss holds that a verdict had a majority and an expired lease.
func checkLoss(j *Job, l *Loss, report func(string, ...any)) {
	if l == nil || l.How != LossVerdict {
		return
	}
	if 2*int(l.Votes) <= int(l.Voters) || l.Silent < j.lostAfter() {
		report("I6: %s was declared lost with %d votes of %d, after %d of %d ns of silence", j.ID, l.Votes, l.Voters, l.Silent, j.lostAfter())
	}
}

func checkClasses(s *state, report func(string, ...any)) {
	numbers := map[uint32]ClassKey{}
	for c := range s.jobs.classes.all() {
		numbers[c.number] = c.key
	}
	used := map[ClassKey]bool{}
	for w := range s.jobs.waiting.all() {
		j, ok := s.Job(w.id)
		key := numbers[uint32(w.place>>8)]
		if !ok || j != w.job || !j.Waiting() || s.ClassOf(j) != key || uint8(w.place) != 255-j.Priority {
			report("%s is listed as waiting in class %v", w.id, key)
		}
		used[key] = true
	}
	if len(used) != s.jobs.classes.len() {
		report("%d classes, %d of them with jobs", s.jobs.classes.len(), len(used))
	}
	for r := range s.jobs.reasons.rows() {
		if !used[r.Class] {
			report("a reason for class %v, of which no job waits", r.Class)
		}
	}
}

func checkQueues(s *state, report func(string, ...any)) {
	want := map[string]*queueFigures{}
	at := func(q string) *queueFigures {
		if want[q] == nil {
			want[q] = &queueFigures{}
		}
		return want[q]
	}
	for j := range s.jobs.rows.rows() {
		at(j.Queue).counts[j.State&15]++
		if j.HeldBack() {
			at(j.Queue).held++
		}
		if _, ok := s.Queue(j.Queue); !ok && !j.Terminal() {
			report("%s is in the queue %q, which does not exist", j.ID, j.Queue)
		}
	}
	for l := range s.Leases() {
		if j, ok := s.Job(l.Job); ok {
			at(j.Queue).gpuMilli += l.gpuMilli()
		}
	}
	listed := 0
	for f := range s.queues.figures.all() {
		if *f.figures != *at(f.name) {
			report("the figures of queue %q are %v, counted anew %v", f.name, *f.figures, *want[f.name])
		}
		listed++
	}
	if listed != len(want) {
		report("figures of %d queues instead of %d", listed, len(want))
	}
	checkShares(s, report)
	checkQueueLimits(s, report)
}

func checkLeases(s *state, report func(string, ...any)) {
	want := map[string]*NodeUse{}
	for l := range s.Leases() {
		j, ok := s.Job(l.Job)
		if !ok || !j.Live() || int(l.Rank) >= len(j.Tasks) || j.Tasks[l.Rank].Node != l.Node {
			report("I2: a lease of %s rank %d on %s that no live task has", l.Job, l.Rank, l.Node)
		}
		u := want[l.Node]
		if u == nil {
			u = &NodeUse{}
			want[l.Node] = u
		}
		if (u.Exclusive|u.Shared)&l.GPUs != 0 && l.FractionMilli == 0 || u.Exclusive&l.GPUs != 0 {
			report("I1: %s: a GPU of %b is in another lease too", l.Node, l.GPUs)
		}
		u.add(l)
		for m := u.Shared; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros64(m); u.Milli[i] > 1000 {
				report("I1: %s: GPU %d is leased to %d thousandths", l.Node, i, u.Milli[i])
			}
		}
	}
	for u := range s.leases.use.all() {
		w := want[u.node]
		if w == nil {
			w = &NodeUse{}
		}
		if *u.use != *w {
			report("the use of %s is %+v, computed anew %+v", u.node, *u.use, *w)
		}
		delete(want, u.node)
	}
	if len(want) != 0 {
		report("%d nodes with leases have no use", len(want))
	}
}

func checkNodes(s *state, report func(string, ...any)) {
	away, timers, lost, unheard := 0, 0, 0, 0
	for n := range s.Nodes() {
		want := v1.NodeState_READY
		u, _ := s.leases.use.tree.Get(nodeUse{node: n.ID})
		switch {
		case n.LostSince != 0:
			want = v1.NodeState_LOST
		case n.UnreachableSince != 0:
			want = v1.NodeState_UNREACHABLE
		case n.Drain != nil && (u.use == nil || u.use.Tasks == 0):
			want = v1.NodeState_DRAINED
		case n.Drain != nil:
			want = v1.NodeState_DRAINING
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
		if n.timer() != 0 {
			timers++
		}
	}
	if uint64(lost) > s.meta.NodesLost {
		report("I6: %d nodes are lost, %d were declared lost", lost, s.meta.NodesLost)
	}
	if s.meta.RosterVersion > s.meta.Index {
		report("the roster is of index %d, after %d", s.meta.RosterVersion, s.meta.Index)
	}
	if unheard != s.nodes.unheard.len() {
		report("%d nodes were not heard of, %d are listed", unheard, s.nodes.unheard.len())
	}
	if away != s.nodes.away.len() || timers != s.nodes.timers.len() {
		report("%d nodes away, %d listed; %d timers, %d listed", away, s.nodes.away.len(), timers, s.nodes.timers.len())
	}
}

func checkCheckpoints(s *state, report func(string, ...any)) {
	n := 0
	for c := range s.checkpoints.rows.rows() {
		n++
		j, ok := s.Job(c.Job)
		if !ok || j.Tenant != c.Tenant {
			report("I9: %s belongs to no job of tenant %q", c.ID, c.Tenant)
			continue
		}
		known := c.Attempt == j.Attempt && c.Token == j.Token ||
			slices.ContainsFunc(j.Past, func(p PastAttempt) bool { return p.Attempt == c.Attempt && p.Token == c.Token })
		if !known && len(j.Past) < MaxPastAttempts {
			report("I9: %s is of attempt %d, token %d, which %s never had", c.ID, c.Attempt, c.Token, j.ID)
		}
		if c.Token > j.Token {
			report("I9: %s came under token %d, after %d of %s", c.ID, c.Token, j.Token, c.Job)
		}
		if at := uint64(c.ID) >> idPositionBits; c.Digest == "" && s.meta.Second != 0 && at >= s.meta.Second {
			report("I9: %s has no manifest", c.ID)
		}
		if !s.checkpoints.byJob.has(jobCheckpoint{c.Job, c.ID}) {
			report("%s is not listed for its job", c.ID)
		}
	}
	if n != s.checkpoints.byJob.len() {
		report("%d checkpoints, %d listed", n, s.checkpoints.byJob.len())
	}
}

func checkKeys(s *state, report func(string, ...any)) {
	seen := map[keyName]bool{}
	for k := range s.keys.rows.rows() {
		id := k.name()
		if seen[id] {
			report("I4: the key %q of tenant %q is there twice", k.Key, k.Tenant)
		}
		seen[id] = true
		j, ok := s.Job(k.Job)
		if !ok && s.meta.Dropped == 0 || ok && j.Tenant != k.Tenant {
			report("I4: the key %q of tenant %q stands for %s, which is not there", k.Key, k.Tenant, k.Job)
		}
	}
}
