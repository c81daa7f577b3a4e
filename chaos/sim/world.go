package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
)

const (
	ms     = int64(1_000_000)
	second = 1000 * ms
	minute = 60 * second

	// epoch is what the wall clocks say at the beginning.
	epoch = int64(1_700_000_000) * second
)

// Rule is a rule of the failure model that a run can do without, to see whether it is missed.
type Rule uint32

// The rules.
const (
	// RuleList: only nodes on the roster that the lost node acknowledged may take over.
	RuleList Rule = 1 << iota
	// RuleSettle: only nodes that have long been in session may take over.
	RuleSettle
	// RuleHold: a replacement is launched long after the agent's last word that it is cut off.
	RuleHold
	// RuleAcks: a task runs on only when the others have answered.
	RuleAcks
	// RuleClosed: a task runs on only when the others answered that they are cut off, too.
	RuleClosed
	// RuleVerify: a heartbeat is acknowledged only after a proof of leadership that began after it came.
	RuleVerify
	// RuleFresh: silence is counted within the leader's own term.
	RuleFresh
	// RuleDurable: an agent names a roster only when it is on disk.
	RuleDurable
	// RuleHello: an agent says which tasks it has when it registers.
	RuleHello
	// RuleVotes: a node is lost only by the votes of a majority.
	RuleVotes
	// RuleAttention: silence does not count while the leader stood still, or had no quorum.
	RuleAttention
	// RuleDeadline: shims hold tasks to their deadlines.
	RuleDeadline
	// RuleRelay: agents that are cut off renew through others.
	RuleRelay
	// RuleSession: a task is launched only in session.
	RuleSession
	// RuleOrders: in a session orders come before the first acknowledgement.
	RuleOrders
	// RuleReturn: the leases of a node that was declared lost are renewed only once it has registered again.
	RuleReturn
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

// Error tells it with the way to see it again.
func (f *Finding) Error() string {
	return fmt.Sprintf("seed %d, at %.3f s: %s: %s\nMIND_CHAOS_SEED=%d go test ./chaos/sim -run TestOneSeed -v\n%s",
		f.Seed, float64(f.At)/float64(second), f.Kind, f.Text, f.Seed, f.Last)
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
	Entries, Elections, Verdicts, Lost, Launches, Replacements, Relayed, RanOn, Cut, Unknown, Restores, GaveUp, Outages int
}

func (s *Seen) add(o Seen) {
	s.Entries += o.Entries
	s.Elections += o.Elections
	s.Verdicts += o.Verdicts
	s.Lost += o.Lost
	s.Launches += o.Launches
	s.Replacements += o.Replacements
	s.Relayed += o.Relayed
	s.RanOn += o.RanOn
	s.Cut += o.Cut
	s.Unknown += o.Unknown
	s.Restores += o.Restores
	s.GaveUp += o.GaveUp
	s.Outages += o.Outages
}

// world is one run.
type world struct {
	seed  uint64
	rng   *rand.Rand
	off   Rule
	now   int64
	queue queue
	steps int
	trace trace
	found *Finding
	seen  Seen
	knobs knobs

	coordinators []*coordinator
	agents       []*agent
	cut          []bool // from*len(procs)+to
	procs        int
	healed       bool

	users  users
	truth  truth
	outage outage
}

// Run plays a seed without some of the rules.
func Run(seed uint64, off Rule) Result {
	w := &world{seed: seed, off: off, rng: rand.New(rand.NewPCG(seed, 0x6d696e64))}
	w.trace.hash = 14695981039346656037
	w.build()
	w.run(w.knobs.attack)
	if w.found == nil && off == 0 {
		w.converge()
	}
	return Result{Finding: w.found, Hash: w.trace.hash, Steps: w.steps, Virtual: w.now, Seen: w.seen}
}

func (w *world) without(r Rule) bool { return w.off&r != 0 }

// build draws the cluster and what will happen to it.
func (w *world) build() {
	w.knobs = drawKnobs(w)
	w.knobs.aim(w.off)
	w.procs = w.knobs.coordinators + w.knobs.agents
	w.cut = make([]bool, w.procs*w.procs)
	w.truth = newTruth()
	for i := range w.knobs.coordinators {
		w.coordinators = append(w.coordinators, newCoordinator(w, i))
	}
	for i := range w.knobs.agents {
		w.agents = append(w.agents, newAgent(w, w.knobs.coordinators+i))
	}
	for _, c := range w.coordinators {
		c.boot()
	}
	for i, a := range w.agents {
		if i >= w.knobs.early {
			w.after(w.within(0, w.knobs.attack), a.powerOn)
			continue
		}
		a.powerOn()
	}
	w.users.begin(w)
	w.disturbLater()
	w.watch()
}

// run plays until a moment, or the first finding.
func (w *world) run(until int64) {
	for w.found == nil {
		e, ok := w.queue.next(until)
		if !ok {
			w.now = until
			return
		}
		w.now = e.at
		w.steps++
		w.trace.fold(uint64(e.at), e.seq)
		e.do()
	}
}

// after has something happen later.
func (w *world) after(d int64, do func()) { w.queue.add(w.now+max(d, 0), do) }

// within draws from a range, the end excluded.
func (w *world) within(from, to int64) int64 {
	if to <= from {
		return from
	}
	return from + w.rng.Int64N(to-from)
}

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// fail takes down a finding. Without one of the rules only overlaps count: the others may follow from its absence.
func (w *world) fail(kind, format string, args ...any) {
	if w.found != nil || w.off != 0 && kind != Overlap {
		return
	}
	w.found = &Finding{Seed: w.seed, Kind: kind, Text: fmt.Sprintf(format, args...), At: w.now, Last: w.trace.last()}
}

// note writes down an event.
func (w *world) note(what, a, b string, x, y uint64) { w.trace.note(w.now, what, a, b, x, y) }

// event is something that happens at a time.
type event struct {
	at  int64
	seq uint64
	do  func()
}

// queue is the events to come, by time, then number. It implements heap.Interface.
type queue struct {
	events []event
	seq    uint64
}

func (q *queue) Len() int { return len(q.events) }

func (q *queue) Less(i, j int) bool {
	a, b := &q.events[i], &q.events[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) Swap(i, j int) { q.events[i], q.events[j] = q.events[j], q.events[i] }

func (q *queue) Push(e any) { q.events = append(q.events, e.(event)) }

func (q *queue) Pop() any {
	last := len(q.events) - 1
	e := q.events[last]
	q.events[last], q.events = event{}, q.events[:last]
	return e
}

func (q *queue) add(at int64, do func()) {
	q.seq++
	heap.Push(q, event{at, q.seq, do})
}

// next takes the first event that is not after until.
func (q *queue) next(until int64) (event, bool) {
	if len(q.events) == 0 || q.events[0].at > until {
		return event{}, false
	}
	return heap.Pop(q).(event), true
}

const remembered = 60

// trace is what happened: a hash of everything, and the end of it in words.
type trace struct {
	hash  uint64
	ring  [remembered]line
	count int
}

type line struct {
	at         int64
	what, a, b string
	x, y       uint64
}

func (t *trace) fold(values ...uint64) {
	for _, v := range values {
		for range 8 {
			t.hash = (t.hash ^ v&0xff) * 1099511628211
			v >>= 8
		}
	}
}

func (t *trace) text(s string) {
	for i := range len(s) {
		t.hash = (t.hash ^ uint64(s[i])) * 1099511628211
	}
}

func (t *trace) note(at int64, what, a, b string, x, y uint64) {
	t.fold(uint64(at), x, y)
	t.text(what)
	t.text(a)
	t.text(b)
	t.ring[t.count%remembered] = line{at, what, a, b, x, y}
	t.count++
}

func (t *trace) last() string {
	var b strings.Builder
	for i := max(0, t.count-remembered); i < t.count; i++ {
		l := t.ring[i%remembered]
		fmt.Fprintf(&b, "%10.3f  %-28s %-4s %-16s %d %d\n", float64(l.at)/float64(second), l.what, l.a, l.b, l.x, l.y)
	}
	return b.String()
}
