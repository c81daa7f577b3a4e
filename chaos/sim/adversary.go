package sim

import (
	"github.com/mindcoordinator/mind/chaos/sim/engine"
	"github.com/mindcoordinator/mind/chaos/sim/raft"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// knobs are parameters that a seed draws once: the size of the cluster, and how severe the disturbances are.
type knobs struct {
	coordinators, nodes, early, jobs int

	attack   int64 // how long it lasts
	pace     int64 // the longest time between two disturbances
	meddling int64

	weather     engine.Weather
	lag         int64 // of replicas
	planLag     int64 // between a plan and its entry
	disk        int64 // for a roster
	launch      int64 // of a task
	leaderLease int64 // the time after which a leader notices that it has no followers

	weights [kinds]int
}

// The kinds of disturbances.
const (
	partition = iota
	links
	healAll
	healSome
	lonely
	mute
	blackout
	quorum
	stopAgent
	killAgent
	reboot
	away
	stopCoordinator
	killCoordinator
	election
	snapshots
	slander
	calm
	kinds
)

func drawKnobs(w *world) knobs {
	pick := func(values ...int64) int64 { return engine.Pick(w.Engine, values...) }
	k := knobs{
		coordinators: 3, nodes: 2 + w.Rand.IntN(4), jobs: 2 + w.Rand.IntN(5),
		attack: w.Within(90*second, 360*second), pace: pick(3, 6, 12, 25) * second, meddling: pick(10, 30, 120) * second,
		weather: engine.Weather{
			Loss: engine.Pick(w.Engine, 0, 0, 0.01, 0.04), Late: engine.Pick(w.Engine, 0, 0.01, 0.05, 0.15), Double: engine.Pick(w.Engine, 0, 0.02, 0.1),
		},
		lag: pick(1, 50, 2000) * ms, planLag: pick(1, 20, 1500) * ms, disk: pick(2, 50, 3000) * ms, launch: pick(2, 200, 4000) * ms,
		leaderLease: pick(800, 800, 5_000, 3_600_000) * ms,
	}
	if w.Chance(0.15) {
		k.coordinators = 5
	}
	k.early = max(min(k.nodes, 2), k.nodes-w.Rand.IntN(3))
	for i := range k.weights {
		k.weights[i] = w.Rand.IntN(4)
	}
	k.weights[partition+w.Rand.IntN(4)] += 3
	return k
}

// aim sets the parameters so that the absence of a rule is likely to be noticed.
func (k *knobs) aim(off Rule) {
	long := func(weights [kinds]int) { k.pace, k.weights = 40*second, weights }
	switch {
	case off&(RuleDurable|RuleList) != 0: // a node that joined late is on the other side
		k.nodes, k.early = max(k.nodes, 3), 2
		long([kinds]int{partition: 4, healAll: 3})
		if off&RuleDurable != 0 {
			k.disk = 10 * minute
		}
	case off&RuleVerify != 0: // a leader keeps one agent and loses all others
		k.leaderLease = 60 * minute
		long([kinds]int{partition: 4, healAll: 2})
	case off&RuleClosed != 0: // agents hear each other, but not all of them hear a coordinator
		long([kinds]int{blackout: 4, healAll: 2, slander: 2})
	case off&RuleAcks != 0: // nodes are isolated for long
		long([kinds]int{partition: 3, lonely: 4, healAll: 2})
	case off&RuleFresh != 0: // leaders change while an agent is away
		long([kinds]int{partition: 4, healAll: 3})
	case off&RuleSession != 0: // agents are away between an order and its launch
		k.pace, k.meddling, k.launch, k.jobs = 12*second, 2*second, 4*second, 8
		k.weights = [kinds]int{stopAgent: 6, lonely: 3, healAll: 2}
	case off&RuleSettle != 0: // agents come and go
		k.pace, k.nodes, k.early = 2*second, 2, 2
		k.weights = [kinds]int{lonely: 4, healAll: 4, links: 2, killAgent: 3, stopAgent: 1, partition: 1}
	}
}

func (w *world) disturbLater() {
	w.After(w.Within(100*ms, w.knobs.pace), func() {
		if w.healed {
			return
		}
		w.disturbLater()
		w.disturb()
	})
}

func (w *world) disturb() {
	sum := 0
	for _, weight := range w.knobs.weights {
		sum += weight
	}
	if sum == 0 {
		return
	}
	at, kind := w.Rand.IntN(sum), 0
	for ; at >= w.knobs.weights[kind]; kind++ {
		at -= w.knobs.weights[kind]
	}
	n := engine.Pick(w.Engine, w.nodes...)
	c := engine.Pick(w.Engine, w.coordinators...)
	if l := w.leader(); l != nil && w.Chance(0.5) {
		c = l
	}
	w.Note("disturbance", n.Name, c.Name, uint64(kind), 0)
	switch kind {
	case partition:
		w.seen.Cut++
		side := w.Rand.Uint64()
		for i := range w.Procs() {
			for j := range w.Procs() {
				w.SetCut(i, j, side>>i&1 != side>>j&1)
			}
		}
	case links:
		w.seen.Cut++
		for range 1 + w.Rand.IntN(5) {
			w.SetCut(w.Rand.IntN(w.Procs()), w.Rand.IntN(w.Procs()), w.Chance(0.6))
		}
	case healAll:
		w.Mend(1)
	case healSome:
		w.Mend(0.5)
	case lonely: // from all others, in one direction or both
		w.seen.Cut++
		in, out := w.Chance(0.7), w.Chance(0.7)
		for i := range w.Procs() {
			w.SetCut(i, n.ID, in)
			w.SetCut(n.ID, i, out || !in)
		}
	case mute: // between a leader and the others
		w.seen.Cut++
		for i := range w.coordinators {
			w.SetCut(c.ID, i, true)
			w.SetCut(i, c.ID, w.Chance(0.7))
		}
	case blackout:
		w.seen.Outages++
		for _, one := range w.nodes {
			for j := range w.coordinators {
				w.SetCut(one.ID, j, true)
				w.SetCut(j, one.ID, w.Chance(0.5))
			}
			for _, other := range w.nodes {
				w.SetCut(one.ID, other.ID, false)
			}
		}
		w.undo(5*second, 90*second, func() { w.healSide() })
	case quorum:
		w.seen.Outages++
		for _, i := range w.Rand.Perm(len(w.coordinators))[:len(w.coordinators)/2+1] {
			w.harmCoordinator(w.coordinators[i], w.Chance(0.5), 5*second, 80*second)
		}
	case stopAgent:
		n.Freeze()
		w.undo(second, 60*second, n.Thaw)
	case killAgent:
		n.kill()
		w.undo(200*ms, 60*second, n.startAgent)
	case reboot:
		n.powerOff()
		w.undo(2*second, 10*second, n.powerOn)
	case away:
		n.powerOff()
		if w.Chance(0.5) {
			w.undo(second, 40*second, func() { w.forget(n) })
		}
		w.undo(20*second, 120*second, n.powerOn)
	case stopCoordinator:
		w.harmCoordinator(c, false, second, 60*second)
	case killCoordinator:
		w.harmCoordinator(c, true, 500*ms, 60*second)
	case election:
		if c.Live() && !c.log.Leading() {
			c.log.Campaign()
		}
	case snapshots:
		if c.Live() {
			c.snapshot()
		}
	case slander: // gossip reports healthy agents as dead
		for _, o := range w.coordinators {
			if w.Chance(0.7) {
				o.gossip[n.at].slander = o.Clock() + w.Within(5*second, 60*second)
			}
		}
	case calm:
		w.Mend(1)
		weights := w.knobs.weights
		w.knobs.weights = [kinds]int{}
		w.undo(5*second, 40*second, func() { w.knobs.weights = weights })
	}
}

// undo schedules the end of a disturbance. The end of the attack may come earlier.
func (w *world) undo(from, to int64, do func()) {
	w.After(w.Within(from, to), func() {
		if !w.healed {
			do()
		}
	})
}

// healSide heals a random part of the links between agents and coordinators.
func (w *world) healSide() {
	p := w.Rand.Float64()
	for _, n := range w.nodes {
		for j := range w.coordinators {
			if w.Chance(p) {
				w.SetCut(n.ID, j, false)
				w.SetCut(j, n.ID, false)
			}
		}
	}
}

func (w *world) harmCoordinator(c *coordinator, kill bool, from, to int64) {
	if !c.Up() {
		return
	}
	if kill {
		c.crash()
		w.undo(from, to, func() {
			if !c.Up() {
				c.boot()
			}
		})
		return
	}
	w.Note("coordinator stops", c.Name, "", c.log.Term(), 0)
	c.Freeze()
	w.undo(from, to, c.Thaw)
}

// forget simulates an operator who confirms that a machine is off.
func (w *world) forget(n *node) {
	if c := w.users.server(); c != nil && !n.Powered() {
		boots := n.Boots
		c.propose(nodeverbs.SetNode{ID: n.Name, Action: nodeverbs.NodeForget}, func(o raft.Outcome, _ any) {
			w.Note("forgotten", n.Name, "", uint64(boots), uint64(o))
		})
	}
}

// heal ends all disturbances.
func (w *world) heal() {
	w.Note("everything is mended", "", "", 0, 0)
	w.healed = true
	w.Weather = engine.Weather{}
	w.Mend(1)
	for _, c := range w.coordinators {
		c.Thaw()
		if !c.Up() {
			c.boot()
		}
		for i := range c.gossip {
			c.gossip[i].slander = 0
		}
	}
	for _, n := range w.nodes {
		n.Thaw()
		n.powerOn()
		n.startAgent()
	}
	w.users.rest()
}
