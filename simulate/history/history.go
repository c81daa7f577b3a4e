package history

import (
	"cmp"
	"iter"
	"slices"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/simulate"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// View is the part of the state that Of reads. *fsm.View implements it.
type View interface {
	Now() int64
	Nodes() iter.Seq[*work.Node]
	Queues() iter.Seq[*work.Queue]
	Quotas() iter.Seq[*work.Quota]
	Policy() policy.Policy
	Windows() iter.Seq[*windows.Window]
	Jobs(desc bool, from ident.Job) iter.Seq[*work.Job]
	ElementStates(array *work.Job) iter.Seq[work.ElementState]
}

// History is the past of a cluster.
type History struct {
	Cluster simulate.Cluster
	Jobs    []trace.Job // in the order of their arrival
	Policy  policy.Policy
	About   About
}

// About says what a history contains, and what it leaves out.
type About struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Nodes int       `json:"nodes"`
	// NodesOut lists nodes that were left out, because they are lost or drained.
	NodesOut []string `json:"nodes_left_out,omitempty"`
	Jobs     int      `json:"jobs"`
	// Finished counts jobs that have ended or are paused; Running and Waiting count the others. Carried counts, among
	// all of these, the jobs that arrived before Since: in the history they arrive at Since, with the work that
	// remained at that time.
	Finished int `json:"finished"`
	Running  int `json:"running"`
	Waiting  int `json:"waiting"`
	Carried  int `json:"carried_over,omitempty"`
	// Forgotten counts, among the finished jobs, array elements without a row, whose durations are estimated.
	Forgotten int `json:"forgotten_elements,omitempty"`
	// NeverRan and TooLarge count jobs that were left out: those that ended without having run or are not due yet, and
	// those that the current nodes could not hold.
	NeverRan int `json:"left_out_never_ran,omitempty"`
	TooLarge int `json:"left_out_too_large,omitempty"`
	Tenants  int `json:"tenants"`
}

// Of reads the history of a cluster since a time; the zero time: the whole history.
func Of(v View, since time.Time) *History {
	h := &History{Policy: v.Policy(), Cluster: simulate.Cluster{FairShare: true}}
	h.Cluster.Windows = slices.Collect(v.Windows())
	maintained := map[string]bool{}
	for _, w := range h.Cluster.Windows {
		for _, id := range w.Drained {
			maintained[id] = true
		}
	}
	for n := range v.Nodes() {
		if n.Drain != nil && !maintained[n.ID] || n.LostSince != 0 || n.Unheard {
			h.About.NodesOut = append(h.About.NodesOut, n.ID)
			continue
		}
		h.Cluster.Nodes = append(h.Cluster.Nodes, inService(n))
	}
	h.Cluster.Queues, h.Cluster.Quotas = slices.Collect(v.Queues()), slices.Collect(v.Quotas())
	r := &reader{History: h, view: v, now: v.Now(), model: learn(v), holds: map[work.Shape]bool{}, tenants: map[string]bool{}}
	if !since.IsZero() {
		r.since = since.UnixNano()
	}
	for j := range v.Jobs(false, 0) {
		switch _, _, element := j.ID.Element(); {
		case element: // r.array reads the elements.
		case j.Array != nil:
			r.array(j)
		default:
			r.job(j, j.ID.String(), nil)
		}
	}
	r.finish()
	return h
}

// inService returns a node as it is when it is healthy: whether it can be reached at the moment does not matter for the
// past.
func inService(n *work.Node) *work.Node {
	return &work.Node{
		ID: n.ID, Hostname: n.Hostname, GPUs: n.GPUs, CPUs: n.CPUs, MemMB: n.MemMB, Labels: n.Labels, State: v1.NodeState_READY,
	}
}

// learn returns the model of durations that the scheduler could have learned from the jobs that succeeded.
func learn(v View) *predict.Model {
	var ended []*work.Job
	for j := range v.Jobs(false, 0) {
		if j.State == v1.JobState_SUCCEEDED && j.Array == nil {
			ended = append(ended, j)
		}
	}
	slices.SortStableFunc(ended, func(a, b *work.Job) int { return cmp.Compare(a.FinishedAt, b.FinishedAt) })
	m := &predict.Model{}
	for _, j := range ended {
		m.Learn(j, order.Attained(j, j.FinishedAt))
	}
	return m
}

// reader turns the jobs of a state into the jobs of a trace.
type reader struct {
	*History
	view       View
	now, since int64
	model      *predict.Model
	holds      map[work.Shape]bool
	tenants    map[string]bool
	arrivals   []int64 // of each job, in Unix nanoseconds
}

// array reads each element of an array as a job.
func (r *reader) array(a *work.Job) {
	var took []int64
	for e := range r.view.ElementStates(a) {
		if e.Row != nil && e.Row.Terminal() {
			if hasRun(e.Row) {
				took = append(took, max(order.Attained(e.Row, r.now), shortest))
			}
		}
	}
	slices.Sort(took)
	typical := int64(0)
	if len(took) > 0 {
		typical = took[len(took)/2]
	}
	for e := range r.view.ElementStates(a) {
		id := a.ID.At(e.Number).String()
		if e.Row != nil {
			r.job(e.Row, id, a)
			continue
		}
		row := *a
		row.Array, row.State = nil, e.State
		switch {
		case !row.Terminal():
			r.job(&row, id, a)
		case typical == 0 || e.State == v1.JobState_CANCELED:
			r.About.NeverRan++ // or its duration cannot be estimated
		case r.since == 0 || row.CreatedAt >= r.since:
			if r.take(&row, id, a, typical, row.CreatedAt) {
				r.About.Finished++
				r.About.Forgotten++
			}
		}
	}
}

// job reads one job, with the time that it has run and, if it has not ended, the time that it is expected to run.
func (r *reader) job(j *work.Job, id string, array *work.Job) {
	over := j.Terminal() || j.State == v1.JobState_PAUSED
	arrived, left, ran := max(j.CreatedAt, j.NotBefore), r.now, order.Attained(j, r.now)
	switch {
	case j.Terminal():
		left = j.FinishedAt
	case over && len(j.Past) > 0:
		left = j.Past[len(j.Past)-1].EndedAt
	}
	switch {
	case left < r.since:
		return
	case over && !hasRun(j), !over && arrived > r.now:
		r.About.NeverRan++
		return
	}
	takes := max(ran-ranBefore(j, r.now, r.since), shortest)
	if !over {
		more := r.model.Remaining(j, ran)
		if j.MaxRuntime > 0 {
			more = min(more, max(j.MaxRuntime-ran, 1))
		}
		takes += more
	}
	if !r.take(j, id, array, takes, arrived) {
		return
	}
	switch {
	case over:
		r.About.Finished++
	case j.Live():
		r.About.Running++
	default:
		r.About.Waiting++
	}
}

// shortest is the shortest duration of a job in a history. The log may have one time for the start and the end of a
// job, if they were reported together.
const shortest = int64(time.Millisecond)

// hasRun reports whether a job ever had a process.
func hasRun(j *work.Job) bool {
	return j.StartedAt != 0 || slices.ContainsFunc(j.Past, func(p work.PastAttempt) bool { return p.StartedAt != 0 })
}

// ranBefore returns how long a job had run before a time.
func ranBefore(j *work.Job, now, at int64) (ran int64) {
	for i := range j.Past {
		if p := &j.Past[i]; p.StartedAt > 0 {
			ran += max(min(p.EndedAt, at)-p.StartedAt, 0)
		}
	}
	if j.StartedAt != 0 && (j.Live() || j.Terminal()) {
		end := now
		if j.Terminal() {
			end = j.FinishedAt
		}
		ran += max(min(end, at)-j.StartedAt, 0)
	}
	return ran
}

// take adds a job to the trace if the nodes could hold it, and reports whether it did.
func (r *reader) take(j *work.Job, id string, array *work.Job, takes, arrived int64) bool {
	holds, known := r.holds[j.Shape]
	if !known {
		_, holds = r.Cluster.CouldRun(j.Shape)
		r.holds[j.Shape] = holds
	}
	if !holds {
		r.About.TooLarge++
		return false
	}
	if arrived < r.since {
		r.About.Carried++
		arrived = r.since
	}
	t := trace.Job{
		ID: id, User: j.User, Shape: j.Shape, Takes: time.Duration(takes), Limit: time.Duration(j.MaxRuntime),
		Tenant: j.Tenant, Queue: j.Queue, Name: j.Name, Priority: j.Priority, Preemptible: j.Preemptible && !j.Retry.Never,
	}
	if array != nil {
		t.Array, t.MaxParallel = array.ID.String(), array.MaxParallel
	}
	for _, d := range j.Dependencies {
		t.After = append(t.After, d.Job.String())
	}
	r.Jobs, r.arrivals = append(r.Jobs, t), append(r.arrivals, arrived)
	r.tenants[j.Tenant] = true
	return true
}

// finish sorts the jobs by their arrival, and completes About.
func (r *reader) finish() {
	begin := r.now
	if len(r.arrivals) > 0 {
		begin = slices.Min(r.arrivals) // Not at Since: the time before the first job must not count as time in which GPUs were idle.
	}
	for i := range r.Jobs {
		r.Jobs[i].Submit = time.Duration(r.arrivals[i] - begin)
	}
	slices.SortStableFunc(r.Jobs, func(a, b trace.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	r.Cluster.Begin = time.Unix(0, begin).UTC()
	a := &r.About
	a.Since, a.Until, a.Jobs = r.Cluster.Begin, time.Unix(0, r.now).UTC(), len(r.Jobs)
	a.Nodes, a.Tenants = len(r.Cluster.Nodes), len(r.tenants)
}
