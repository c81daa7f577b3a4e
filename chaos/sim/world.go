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

// The kinds of findings.
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

// Finding is the first violation of a run.
type Finding struct {
	Seed uint64
	Kind string
	Text string
	At   int64
	Last string // the last events before it
}

// Error implements error. It says how to repeat the finding.
func (f *Finding) Error() string {
	return fmt.Sprintf("seed %d, at %.3f s: %s: %s\nMIND_CHAOS_SEED=%d go test ./chaos/sim -run TestOneSeed -v\n%s",
		f.Seed, time.Duration(f.At).Seconds(), f.Kind, f.Text, f.Seed, f.Last)
}

// Result is the result of a run.
type Result struct {
	Finding *Finding
	Hash    uint64 // of the trace
	Steps   int    // events
	Virtual int64  // nanoseconds
	Seen    Seen
}

// Seen counts events of a run: a run without events proves nothing.
type Seen struct {
	Entries, Elections, Results, Lost, Launches, Replacements, Relayed, RanOn, Cut, Unknown, Restores, GaveUp, Outages int
}

// world is the state of one run.
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

// Run runs a seed without some of the rules.
func Run(seed uint64, off Rule) Result {
	w := &world{Engine: engine.New(seed), seed: seed, off: off, truth: newTruth()}
	w.build()
	w.Run(w.knobs.attack)
	if w.found == nil && off == 0 {
		w.converge()
	}
	return Result{Finding: w.found, Hash: w.Trace.Hash(), Steps: w.Steps(), Virtual: w.Now(), Seen: w.seen}
}

// build draws the cluster and its disturbances.
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

// rate draws the rate of a clock, which is wrong by up to half a percent.
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

// leader returns the true leader of the newest term; nil: there is none.
func (w *world) leader() *coordinator {
	var leader *coordinator
	for _, c := range w.coordinators {
		if c.Up() && c.term != nil && (leader == nil || c.term.number > leader.term.number) {
			leader = c
		}
	}
	return leader
}

// fail records a finding. If a rule is left out, only overlaps count: other findings may follow from its absence.
func (w *world) fail(kind, format string, args ...any) {
	if w.found != nil || w.off != 0 && kind != Overlap {
		return
	}
	w.found = &Finding{Seed: w.seed, Kind: kind, Text: fmt.Sprintf(format, args...), At: w.Now(), Last: w.Trace.Last()}
	w.Stop()
}
