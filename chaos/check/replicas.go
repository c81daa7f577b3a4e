package check

import (
	"fmt"
	"sync"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Replicas compares the views of all replicas with each other (I8), checks the invariants of each state (fsm.Check),
// and checks the history of every job against the table of transitions (I5) and its tokens (I3).
type Replicas struct {
	findings *Findings

	mu     sync.Mutex
	hashes map[uint64]seen
	newest uint64
	jobs   map[ident.Job]course
	// lost counts the jobs that were declared lost, moves all changes of state.
	lost, moves int
	states      map[v1.JobState_Value]int
	// view is the newest published state.
	view *fsm.View
	// told has all events, in order.
	told []report
}

type seen struct {
	hash uint64
	by   string
}

// course is the state of a job according to the newest entry.
type course struct {
	index   uint64
	pos     int
	state   v1.JobState_Value
	attempt uint32
	token   uint64
}

// keepHashes limits how far behind a replica may be to be compared.
const keepHashes = 200_000

// NewReplicas returns a Replicas without views.
func NewReplicas(f *Findings) *Replicas {
	return &Replicas{findings: f, hashes: map[uint64]seen{}, jobs: map[ident.Job]course{}, states: map[v1.JobState_Value]int{}}
}

// Observer returns the function that a replica calls for each view that it publishes: see fsm.Machine.OnApply.
func (r *Replicas) Observer(id string) func(*fsm.View, []event.Event) {
	return func(v *fsm.View, events []event.Event) { r.observe(id, v, events) }
}

func (r *Replicas) observe(id string, v *fsm.View, events []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index, hash := v.Index(), v.Hash()
	if index == 0 {
		return
	}
	if other, ok := r.hashes[index]; !ok {
		r.hashes[index] = seen{hash, id}
	} else if other.hash != hash {
		r.findings.Add("I8: at index %d %s has state %016x and %s has %016x", index, id, hash, other.by, other.hash)
	}
	if index <= r.newest {
		return // a replica that is behind, or started again: these entries were checked already
	}
	r.grants(v)
	for i := range events {
		if events[i].Topic != event.TopicState {
			r.note(&events[i])
		}
		r.follow(v, &events[i])
	}
	r.newest, r.view = index, v
	if len(r.hashes) > keepHashes {
		for i := range r.hashes {
			if i+keepHashes/2 < index {
				delete(r.hashes, i)
			}
		}
	}
}

// grants checks I7 from one state to the next: a tenant that exceeds a limit must have had as much before the limit was
// set. Between two states there may be several entries; a limit that changed with them is checked from the next state
// on.
func (r *Replicas) grants(v *fsm.View) {
	before := r.view
	if before == nil {
		return
	}
	over := func(what, of string, is, was, limit int) {
		if is > max(was, limit) {
			r.findings.Add("I7: %s of %s went from %d to %d at index %d, and the limit is %d", what, of, was, is, v.Index(), limit)
		}
	}
	for q := range v.Quotas() {
		if old, ok := before.Quota(q.Tenant); !ok || old.Revision != q.Revision {
			continue
		}
		is, was := v.Usage(q.Tenant), before.Usage(q.Tenant)
		if q.MaxGPUs != nil {
			over("thousandths of GPUs", "tenant "+q.Tenant, is.GPUMilli, was.GPUMilli, 1000*int(*q.MaxGPUs))
		}
		if q.MaxRunning != nil {
			over("running jobs", "tenant "+q.Tenant, is.Running, was.Running, int(*q.MaxRunning))
		}
		if q.MaxJobs != nil {
			over("unfinished jobs", "tenant "+q.Tenant, is.Unfinished, was.Unfinished, int(*q.MaxJobs))
		}
	}
	for q := range v.Queues() {
		if old, ok := before.Queue(q.Name); ok && old.Revision == q.Revision && q.MaxGPUs != 0 {
			over("thousandths of GPUs", "queue "+q.Name, v.QueueTreeGPUs(q.Name), before.QueueTreeGPUs(q.Name), 1000*int(q.MaxGPUs))
		}
	}
}

func (r *Replicas) follow(v *fsm.View, e *event.Event) {
	if e.Topic != event.TopicJob || e.From == e.To {
		return
	}
	r.moves++
	r.states[e.To]++
	before, known := r.jobs[e.Job]
	if e.To == v1.JobState_LOST {
		r.lost++
	}
	if known && before.state != e.From {
		r.findings.Add("I5: %s went from %s to %s at index %d, but was %s", e.Job, e.From, e.To, e.Index, before.state)
	}
	if e.From != 0 && !work.CanMove(e.From, e.To) {
		r.findings.Add("I5: %s went from %s to %s at index %d", e.Job, e.From, e.To, e.Index)
	}
	next := course{index: e.Index, pos: e.Pos, state: e.To, attempt: before.attempt, token: before.token}
	if j, ok := v.Job(e.Job); ok {
		if j.Token < before.token || j.Attempt < before.attempt {
			r.findings.Add("I3: token of %s went from %d to %d, attempt from %d to %d, at index %d", e.Job, before.token, j.Token, before.attempt, j.Attempt, e.Index)
		}
		next.attempt, next.token = j.Attempt, j.Token
	}
	r.jobs[e.Job] = next
}

// View checks all of one state. That is expensive, so call it only from time to time.
func (r *Replicas) View(id string, v *fsm.View) {
	for _, violation := range fsm.Check(v) {
		r.findings.Add("%s at index %d: %s", id, v.Index(), violation)
	}
}

// Summary returns the counts as text.
func (r *Replicas) Summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("index %d, %d moves of %d jobs, %d times lost, ends: %d succeeded, %d failed, %d canceled",
		r.newest, r.moves, len(r.jobs), r.lost, r.states[v1.JobState_SUCCEEDED], r.states[v1.JobState_FAILED], r.states[v1.JobState_CANCELED])
}

// Lost returns how often a job was declared lost.
func (r *Replicas) Lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}
