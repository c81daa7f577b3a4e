package sim

import (
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/chaos/sim/engine"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	minute = int64(time.Minute)
)

// Kinds of findings.
const (
	Overlap   = "overlap"
	State     = "state"
	Diverged  = "diverged"
	Token     = "token"
	Evidence  = "evidence"
	Forgotten = "forgotten submit"
	Terminal  = "terminal"
	Stuck     = "no convergence"
	Harm      = "harm"
	Shared    = "shared GPU"
)

// Finding is what a run found.
type Finding struct {
	Seed uint64
	Kind string
	Text string
	At   int64
	Last string // the last events before it
}

// Error says it, and how to see it again.
func (f *Finding) Error() string {
	return fmt.Sprintf("seed %d, at %.3f s: %s: %s\nMIND_CHAOS_SEED=%d go test ./chaos/sim -run TestOneSeed -v\n%s",
		f.Seed, time.Duration(f.At).Seconds(), f.Kind, f.Text, f.Seed, f.Last)
}

// Result is a run.
type Result struct {
	Finding *Finding
	Hash    uint64 // of the trace
	Steps   int    // events
	Virtual int64  // nanoseconds
	Seen    Seen
}

// Seen counts what a run came across: a run in which nothing happens shows nothing.
type Seen struct {
	Entries, Elections, Results, Lost, Launches, Replacements, Relayed, RanOn, Cut, Unknown, Restores, GaveUp, Outages int
}

// world is one run.
type world struct {
	*engine.Engine
	seed  uint64
	off   Rule
	found *Finding
	seen  Seen
	knobs knobs

	coordinators []*coordinator
	nodes        []*node
	healed       bool

	users  users
	truth  truth
	outage outage
}

// Run plays a seed without some of the rules.
func Run(seed uint64, off Rule) Result {
	w := &world{Engine: engine.New(seed), seed: seed, off: off, truth: newTruth()}
	w.build()
	w.Run(w.knobs.attack)
	if w.found == nil && off == 0 {
		w.converge()
	}
	return Result{Finding: w.found, Hash: w.Trace.Hash(), Steps: w.Steps(), Virtual: w.Now(), Seen: w.seen}
}

// build draws the cluster and what will happen to it.
func (w *world) build() {
	w.knobs = drawKnobs(w)
	w.knobs.aim(w.off)
	w.Weather = w.knobs.weather
	w.addCoordinators(w.knobs.coordinators)
	for i := range w.knobs.nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	for _, c := range w.coordinators {
		c.boot()
	}
	for i, n := range w.nodes {
		if i >= w.knobs.early {
			w.After(w.Within(0, w.knobs.attack), n.powerOn)
			continue
		}
		n.powerOn()
	}
	w.users.begin(w)
	w.disturbLater()
	w.watch()
}

// rate is that of a clock, wrong by up to half a percent.
func (w *world) rate() float64 { return 1 + (w.Rand.Float64()-0.5)/100 }

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (w *world) coordinator(name string) *coordinator {
	for _, c := range w.coordinators {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// leader is the coordinator that leads in the newest term, as somebody who sees everything knows; nil: none.
func (w *world) leader() *coordinator {
	var leader *coordinator
	for _, c := range w.coordinators {
		if c.Up() && c.term != nil && (leader == nil || c.term.number > leader.term.number) {
			leader = c
		}
	}
	return leader
}

// fail takes down a finding. Without one of the rules only overlaps count: the others may follow from its absence.
func (w *world) fail(kind, format string, args ...any) {
	if w.found != nil || w.off != 0 && kind != Overlap {
		return
	}
	w.found = &Finding{Seed: w.seed, Kind: kind, Text: fmt.Sprintf(format, args...), At: w.Now(), Last: w.Trace.Last()}
	w.Stop()
}
