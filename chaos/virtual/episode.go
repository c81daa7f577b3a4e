package virtual

import (
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/chaos/check"
)

// Episode describes a cluster, its users and its faults, and runs them to a result.
type Episode struct {
	Options Options
	Load    Load
	// Others is the load of a second tenant; if it has no users, there is no second tenant.
	Others Load
	// Length is how long users work while faults are inflicted. A fault begins about every Pause.
	Length, Pause time.Duration
	Kinds         []Kind
	// Only are the numbers of the faults to inflict, from 0; nil: all that the seed draws.
	Only []int
	// Settle is how long the jobs have to end after all faults are healed; default 30 min.
	Settle time.Duration
	// Watch is called with the cluster as soon as it exists, so that a goroutine outside the bubble can read its
	// journal.
	Watch func(*Cluster)
}

// Faults returns the faults to inflict on the cluster.
func (e Episode) Faults() []Fault {
	all := Schedule(e.Options.Seed, e.Length, e.Pause, e.Kinds)
	if e.Only == nil {
		return all
	}
	var some []Fault
	for i, f := range all {
		if slices.Contains(e.Only, i) {
			some = append(some, f)
		}
	}
	return some
}

// Result is the result of an episode.
type Result struct {
	Seed     uint64
	Findings []string
	Journal  []string
	History  *check.History
	// Report is a summary for people; Virtual is the virtual time that the cluster ran.
	Report  string
	Virtual time.Duration
	Jobs    int
	Lost    int
}

// Run runs the episode. It must be called inside a bubble; its result may be used outside. The history is not checked
// yet: that takes real time.
func (e Episode) Run() *Result {
	if e.Settle == 0 {
		e.Settle = 30 * time.Minute
	}
	began := time.Now()
	c := New(e.Options)
	if e.Watch != nil {
		e.Watch(c)
	}
	c.Start()
	loads := []Load{e.Load}
	if e.Others.Users > 0 {
		loads = append(loads, e.Others)
	}
	var all []*Workload
	var watchers []*Watching
	for _, load := range loads {
		w := c.Work(load)
		w.LogsMayBeGone = true
		all = append(all, w)
		watchers = append(watchers, c.WatchEvents(w.load.Tenant))
	}
	w := all[0]
	watching := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-watching:
				return
			case <-time.After(10 * time.Second):
				c.CheckViews()
			}
		}
	}()
	a := c.Attack(e.Faults())
	time.Sleep(max(0, e.Length-time.Since(began)))
	for _, w := range all {
		w.Rest()
	}
	jobs, checkpoints, events, streams := 0, 0, 0, 0
	for _, w := range all {
		w.ends(e.Settle)
		jobs += len(w.Jobs())
		checkpoints += w.CheckCheckpoints()
	}
	c.Empty()
	a.CheckMembers()
	if len(all) > 1 {
		all[0].Foreign(all[1].load.Tenant)
		all[1].Foreign(all[0].load.Tenant)
	}
	for _, w := range watchers {
		events += w.End(5 * time.Minute)
		streams += w.Streams
	}
	close(watching)
	<-watched
	c.CheckViews()
	v := &Result{Seed: e.Options.Seed, History: w.History, Virtual: time.Since(began), Jobs: jobs, Lost: c.Replicas.Lost()}
	_, ever := c.World.Live()
	v.Report = fmt.Sprintf("seed %d: %s of cluster life; faults: %s; %d coordinators replaced; %d jobs, %d processes, %d checkpoints; %d events told over %d streams; %s; calls: %s",
		e.Options.Seed, v.Virtual.Round(time.Second), a.Report(), c.replaced, v.Jobs, ever, checkpoints, events, streams, c.Replicas.Summary(), w.Answers())
	v.Findings = c.Findings.All()
	v.Journal = c.Journal(journalLines)
	c.Close()
	return v
}
