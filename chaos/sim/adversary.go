package sim

import "github.com/mindcoordinator/mind/fsm/work"

// knobs are what a seed draws once: how large the cluster is, and how bad the world.
type knobs struct {
	coordinators, agents, early, jobs int

	attack   int64 // how long it lasts
	pace     int64 // the longest time between two disturbances
	meddling int64

	loss, late, double float64
	lag                int64 // of replicas
	planLag            int64 // between a plan and its entry
	disk               int64 // for a roster
	launch             int64 // of a task
	leaderLease        int64 // after what time a leader without followers notices

	weights [kinds]int
}

// Disturbances.
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
	pick := func(values ...int64) int64 { return values[w.rng.IntN(len(values))] }
	k := knobs{
		coordinators: 3, agents: 2 + w.rng.IntN(4), jobs: 2 + w.rng.IntN(5),
		attack: w.within(90*second, 360*second), pace: pick(3, 6, 12, 25) * second, meddling: pick(10, 30, 120) * second,
		loss: float64(pick(0, 0, 1, 4)) / 100, late: float64(pick(0, 1, 5, 15)) / 100, double: float64(pick(0, 2, 10)) / 100,
		lag: pick(1, 50, 2000) * ms, planLag: pick(1, 20, 1500) * ms, disk: pick(2, 50, 3000) * ms, launch: pick(2, 200, 4000) * ms,
		leaderLease: pick(800, 800, 5_000, 3_600_000) * ms,
	}
	if w.chance(0.15) {
		k.coordinators = 5
	}
	k.early = max(min(k.agents, 2), k.agents-w.rng.IntN(3))
	for i := range k.weights {
		k.weights[i] = w.rng.IntN(4)
	}
	k.weights[partition+w.rng.IntN(4)] += 3
	return k
}

// aim makes a world in which the absence of a rule is likely to show.
func (k *knobs) aim(off Rule) {
	long := func(weights [kinds]int) { k.pace, k.weights = 40*second, weights }
	switch {
	case off&(RuleDurable|RuleList) != 0: // somebody who came late is on the other side
		k.agents, k.early = max(k.agents, 3), 2
		long([kinds]int{partition: 4, healAll: 3})
		if off&RuleDurable != 0 {
			k.disk = 10 * minute
		}
	case off&RuleVerify != 0: // a leader keeps an agent, and loses the rest
		k.leaderLease = 60 * minute
		long([kinds]int{partition: 4, healAll: 2})
	case off&RuleClosed != 0: // agents hear each other, and not all of them a coordinator
		long([kinds]int{blackout: 4, healAll: 2, slander: 2})
	case off&RuleSettle != 0: // agents come and go
		k.pace, k.agents, k.early = 2*second, 2, 2
		k.weights = [kinds]int{lonely: 4, healAll: 4, links: 2, killAgent: 3, stopAgent: 1, partition: 1}
	}
}

func (w *world) disturbLater() {
	w.after(w.within(100*ms, w.knobs.pace), func() {
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
	at, kind := w.rng.IntN(sum), 0
	for ; at >= w.knobs.weights[kind]; kind++ {
		at -= w.knobs.weights[kind]
	}
	a := w.agents[w.rng.IntN(len(w.agents))]
	c := w.coordinators[w.rng.IntN(len(w.coordinators))]
	if l := w.leader(); l != nil && w.chance(0.5) {
		c = l
	}
	w.note("disturbance", a.name, c.name, uint64(kind), 0)
	switch kind {
	case partition:
		w.seen.Cut++
		side := w.rng.Uint64()
		for i := range w.procs {
			for j := range w.procs {
				w.setCut(i, j, side>>i&1 != side>>j&1)
			}
		}
	case links:
		w.seen.Cut++
		for range 1 + w.rng.IntN(5) {
			w.setCut(w.rng.IntN(w.procs), w.rng.IntN(w.procs), w.chance(0.6))
		}
	case healAll:
		clear(w.cut)
	case healSome:
		for i := range w.cut {
			w.cut[i] = w.cut[i] && w.chance(0.5)
		}
	case lonely: // from everybody, in one direction or both
		w.seen.Cut++
		in, out := w.chance(0.7), w.chance(0.7)
		for i := range w.procs {
			w.setCut(i, a.id, in)
			w.setCut(a.id, i, out || !in)
		}
	case mute: // a leader and the others
		w.seen.Cut++
		for i := range w.coordinators {
			w.setCut(c.id, i, true)
			w.setCut(i, c.id, w.chance(0.7))
		}
	case blackout:
		w.seen.Outages++
		for i := range w.agents {
			for j := range w.coordinators {
				w.setCut(w.agents[i].id, j, true)
				w.setCut(j, w.agents[i].id, w.chance(0.5))
			}
			for j := range w.agents {
				w.setCut(w.agents[i].id, w.agents[j].id, false)
			}
		}
		w.undo(5*second, 90*second, func() { w.healSide() })
	case quorum:
		w.seen.Outages++
		for _, i := range w.rng.Perm(len(w.coordinators))[:len(w.coordinators)/2+1] {
			w.harmCoordinator(w.coordinators[i], w.chance(0.5), 5*second, 80*second)
		}
	case stopAgent:
		a.awake = false
		w.undo(second, 60*second, func() { a.awake = true })
	case killAgent:
		a.kill()
		w.undo(200*ms, 60*second, a.startAgent)
	case reboot:
		a.powerOff()
		w.undo(2*second, 10*second, a.powerOn)
	case away:
		a.powerOff()
		if w.chance(0.5) {
			w.undo(second, 40*second, func() { w.forget(a) })
		}
		w.undo(20*second, 120*second, a.powerOn)
	case stopCoordinator:
		w.harmCoordinator(c, false, second, 60*second)
	case killCoordinator:
		w.harmCoordinator(c, true, 500*ms, 60*second)
	case election:
		if c.live() && !c.log.leads {
			c.campaign()
		}
	case snapshots:
		if c.live() {
			c.snapshot()
		}
	case slander: // gossip is wrong about agents that are well
		for _, o := range w.coordinators {
			if w.chance(0.7) {
				o.gossip[a.at].slander = o.clock() + w.within(5*second, 60*second)
			}
		}
	case calm:
		clear(w.cut)
		weights := w.knobs.weights
		w.knobs.weights = [kinds]int{}
		w.undo(5*second, 40*second, func() { w.knobs.weights = weights })
	}
}

// undo is the end of a disturbance, which the end of the attack may bring forward.
func (w *world) undo(from, to int64, do func()) {
	w.after(w.within(from, to), func() {
		if !w.healed {
			do()
		}
	})
}

// healSide heals some of the links between agents and coordinators, in no order.
func (w *world) healSide() {
	p := w.rng.Float64()
	for _, a := range w.agents {
		for j := range w.coordinators {
			if w.chance(p) {
				w.setCut(a.id, j, false)
				w.setCut(j, a.id, false)
			}
		}
	}
}

func (w *world) harmCoordinator(c *coordinator, kill bool, from, to int64) {
	if !c.up {
		return
	}
	if kill {
		c.crash()
		w.undo(from, to, func() {
			if !c.up {
				c.boot()
			}
		})
		return
	}
	w.note("coordinator stops", c.name, "", c.log.term, 0)
	c.awake = false
	w.undo(from, to, func() { c.awake = true })
}

// forget is an operator who vouches that a machine is off.
func (w *world) forget(a *agent) {
	if c := w.users.server(); c != nil && !a.powered {
		boots := a.boots
		c.propose(work.SetNode{ID: a.name, Action: work.NodeForget}, func(o outcome, _ any) {
			w.note("forgotten", a.name, "", uint64(boots), uint64(o))
		})
	}
}

// heal mends everything.
func (w *world) heal() {
	w.note("everything is mended", "", "", 0, 0)
	w.healed = true
	clear(w.cut)
	for _, c := range w.coordinators {
		c.awake = true
		if !c.up {
			c.boot()
		}
		for i := range c.gossip {
			c.gossip[i].slander = 0
		}
	}
	for _, a := range w.agents {
		a.awake = true
		a.powerOn()
		a.startAgent()
	}
	w.users.rest()
}
