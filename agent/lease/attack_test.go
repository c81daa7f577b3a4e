package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The attack simulates agents with real keepers, their shims, and coordinators that follow rule R3. It cuts links in
// one or both directions, stops and restarts agents, stops the coordinators, and changes leaders. The clocks of agents
// drift. At no time may two attempts of the job be alive.

const (
	step    = s / 4
	jobL    = 20 * time.Second
	silent  = 4 * s // both ends close a silent session after this time
	episode = 240 * s
)

type player struct {
	k         *Keeper
	rate      float64 // the speed of its clock
	up, awake bool
	seq       uint64
	open      bool  // its session is open
	proven    bool  // a renewal was acknowledged in it
	acked     int64 // local time of the newest acknowledgement
	beatAt    int64
	pingAt    int64
	roster    []string // on disk
	version   uint64
	order     int // token of the task to launch, 0: none
	replaces  bool

	// The state of the shim, on the local clock; token 0: no task.
	token  int
	told   Deadline
	begun  bool
	deadAt int64
}

type coordinators struct {
	up        bool
	stalled   bool // it welcomes agents but acknowledges nothing: its disk hangs
	reign     int64
	sessionAt map[int]int64 // of agents with a session, by the leader's clock
	heard     map[int]int64 // the last message in the session
	renewed   map[int]int64
	since     map[int]uint64 // version of the roster since which the node is on it
	ackedBy   map[int]uint64
	version   uint64
	owner     int
	token     int
	awaits    map[int]uint64 // by node with an attempt that may be alive: its roster
	verdicts  int
}

type attack struct {
	rng     *rand.Rand
	timing  Timing
	settle  int64 // of the coordinators
	now     int64
	players []*player
	c       coordinators
	cut     map[[2]int]bool // one-way; -1 is the coordinators
	pings   []ping
}

type ping struct {
	from, to int
	sentAt   int64
	closed   bool
	back     bool
}

func name(i int) string { return fmt.Sprintf("n%d", i) }

func newAttack(seed uint64, timing Timing, settle int64) *attack {
	a := &attack{rng: rand.New(rand.NewPCG(seed, 7)), timing: timing, settle: settle, now: 1000 * s, cut: map[[2]int]bool{}}
	a.c = coordinators{
		up: true, reign: a.now, sessionAt: map[int]int64{}, heard: map[int]int64{}, renewed: map[int]int64{}, since: map[int]uint64{},
		ackedBy: map[int]uint64{}, owner: -1, awaits: map[int]uint64{},
	}
	for i := range 2 + a.rng.IntN(3) {
		p := &player{rate: 1 + (a.rng.Float64()-0.5)/100, awake: true, up: i < 2 || a.rng.IntN(3) > 0}
		a.players = append(a.players, p)
		p.k = New(name(i), timing, a.local(p))
	}
	return a
}

func (a *attack) local(p *player) int64 { return int64(float64(a.now) * p.rate) }

func (a *attack) passes(from, to int) bool { return !a.cut[[2]int{from, to}] }

func (a *attack) live(i int) bool { return a.players[i].up && a.players[i].awake }

// reaches reports whether a message from an agent reaches the leader, answered whether an answer also gets back.
func (a *attack) reaches(i int) bool  { return a.c.up && a.passes(i, -1) }
func (a *attack) answered(i int) bool { return a.reaches(i) && a.passes(-1, i) }

func (a *attack) disturb() {
	n := len(a.players)
	i := a.rng.IntN(n)
	p := a.players[i]
	switch a.rng.IntN(9) {
	case 0, 1: // a partition
		side := make([]bool, n+1)
		for j := range side {
			side[j] = a.rng.IntN(2) == 0
		}
		for x := -1; x < n; x++ {
			for y := -1; y < n; y++ {
				a.cut[[2]int{x, y}] = side[x+1] != side[y+1]
			}
		}
	case 2: // single links, one way
		for range 1 + a.rng.IntN(4) {
			a.cut[[2]int{a.rng.IntN(n+1) - 1, a.rng.IntN(n+1) - 1}] = a.rng.IntN(2) == 0
		}
	case 3:
		clear(a.cut)
	case 4:
		a.c.up = a.rng.IntN(3) == 0
		a.c.stalled = a.c.up
	case 5, 6:
		a.c.up, a.c.stalled = true, false
		a.c.reign = a.now
		clear(a.c.sessionAt)
	case 7:
		p.awake = !p.awake
	case 8:
		p.up, p.awake = !p.up, true
		if p.up {
			a.restart(i)
		} else {
			p.open = false
		}
	}
}

func (a *attack) restart(i int) {
	p := a.players[i]
	p.k = New(name(i), a.timing, a.local(p))
	if p.version != 0 {
		p.k.SetRoster(p.version, p.roster)
	}
	p.open, p.order = false, 0
	if p.token != 0 {
		p.k.Add("t", Task{Lease: jobL, Stop: 5 * time.Second, Replaceable: true})
		p.k.Restore("t", p.told)
	}
}

// renew does what the leader does on a renewal.
func (a *attack) renew(i int) {
	a.c.renewed[i] = a.now
	if a.players[i].version != 0 {
		a.c.ackedBy[i] = a.players[i].version
	}
}

func (a *attack) agent(i int) {
	p, now := a.players[i], a.local(a.players[i])
	if p.open && now-p.acked > silent {
		p.open = false
		p.order = 0
		p.k.SessionClosed(now)
	}
	if !p.open && a.reaches(i) && a.rng.IntN(2) == 0 {
		// The leader's session begins whether or not its welcome arrives.
		a.c.sessionAt[i], a.c.heard[i] = a.now, a.now
		if a.c.since[i] == 0 {
			a.c.version++
			a.c.since[i] = a.c.version
		}
		if a.passes(-1, i) {
			p.open, p.proven, p.acked, p.beatAt = true, false, now, 0
		}
	}
	if p.open && now-p.beatAt >= s {
		p.beatAt = now
		p.seq++
		p.k.Sent(p.seq, now)
		if a.reaches(i) {
			if _, in := a.c.sessionAt[i]; in {
				a.c.heard[i] = a.now
				if !a.c.stalled {
					a.renew(i)
				}
				if a.passes(-1, i) && !a.c.stalled {
					p.k.Acked(p.seq)
					p.acked = now
					if !p.proven {
						p.proven = true
						p.k.SessionOpened(now)
					}
					if p.version != a.c.version {
						p.version, p.roster = a.c.version, nil
						for m := range a.players {
							if a.c.since[m] != 0 {
								p.roster = append(p.roster, name(m))
							}
						}
						p.k.SetRoster(p.version, p.roster)
					}
				}
			} else {
				p.open, p.order = false, 0 // this leader has no such session
				p.k.SessionClosed(now)
			}
		}
	}
	if p.k.NeedRelay(now) && now-p.beatAt >= s {
		p.beatAt = now
		p.seq++
		p.k.Sent(p.seq, now)
		for j := range a.players {
			if j != i && a.live(j) && a.players[j].open && a.passes(i, j) && a.reaches(j) {
				if _, in := a.c.sessionAt[j]; in && !a.c.stalled {
					a.renew(i)
					if a.answered(j) && a.passes(j, i) {
						p.k.Acked(p.seq)
					}
					break
				}
			}
		}
	}
	if p.k.NeedPing(now) && now-p.pingAt >= s {
		p.pingAt = now
		for j := range a.players {
			if j != i {
				a.pings = append(a.pings, ping{from: i, to: j, sentAt: now})
			}
		}
	}
	if p.token != 0 && !p.begun {
		if d, ok := p.k.Deadline("t", now); ok {
			p.told = p.told.later(d)
		}
	}
	a.launch(i)
}

func (a *attack) launch(i int) {
	p, now := a.players[i], a.local(a.players[i])
	if p.order == 0 || p.token != 0 || (p.replaces && !p.k.MayLaunchReplacement(now)) {
		return
	}
	p.k.Add("t", Task{Lease: jobL, Stop: 5 * time.Second, Replaceable: true})
	if d, ok := p.k.Deadline("t", now); ok && now < d.StopAt {
		p.token, p.told, p.begun, p.order = p.order, d, false, 0
	}
}

// deliver delivers pings and their answers, late and out of order.
func (a *attack) deliver() {
	kept := a.pings[:0]
	for _, m := range a.pings {
		from, to := a.players[m.from], a.players[m.to]
		if a.local(from)-m.sentAt > 4*s || !from.up {
			continue
		}
		switch {
		case a.rng.IntN(3) == 0:
		case !m.back && a.live(m.to) && a.passes(m.from, m.to):
			m.back, m.closed = true, to.k.AnswerPing(a.local(to))
		case m.back && a.live(m.from) && a.passes(m.to, m.from):
			if m.closed {
				from.k.PeerClosed(name(m.to), m.sentAt)
			}
			continue
		}
		kept = append(kept, m)
	}
	a.pings = kept
}

// shim enforces a deadline. It uses all the time that it may.
func (a *attack) shim(p *player) {
	now := a.local(p)
	if p.token == 0 {
		return
	}
	if !p.begun && now >= p.told.StopAt {
		p.begun, p.deadAt = true, p.told.DeadBy
	}
	if p.begun && now >= p.deadAt {
		p.token = 0
		p.k.Remove("t")
	}
}

func (a *attack) lead() {
	if !a.c.up || a.c.stalled {
		return
	}
	for i := range a.c.sessionAt {
		if a.now-a.c.heard[i] > silent {
			delete(a.c.sessionAt, i)
		}
	}
	inSession := func(i int, longer int64) bool {
		at, in := a.c.sessionAt[i]
		return in && a.now-at > longer
	}
	// A node that returns without the task has no attempt that may be alive.
	for x := range a.players {
		if _, lost := a.c.awaits[x]; lost && inSession(x, 0) && a.live(x) && a.players[x].open && a.answered(x) {
			if p := a.players[x]; p.token == 0 {
				delete(a.c.awaits, x)
			} else if p.token != a.c.token && !p.begun {
				p.begun, p.deadAt = true, a.local(p)+s
			}
		}
	}
	x := a.c.owner
	if x < 0 {
		a.place()
		return
	}
	p := a.players[x]
	if inSession(x, 0) && p.open && a.answered(x) && a.live(x) {
		if p.token != a.c.token && p.order != a.c.token {
			a.c.owner = -1 // the agent reports that the task has ended
		}
		return
	}
	if a.now-max(a.c.renewed[x], a.c.reign) < int64(jobL) {
		return
	}
	for m := range a.players {
		if m != x && a.c.since[m] != 0 && a.c.since[m] <= a.c.ackedBy[x] && inSession(m, a.settle) {
			a.c.awaits[x] = a.c.ackedBy[x]
			a.c.owner = -1
			a.c.verdicts++
			return
		}
	}
}

// place places the job on a node that may run it.
func (a *attack) place() {
	var able []int
	for m, p := range a.players {
		at, in := a.c.sessionAt[m]
		if !in || !p.open || !a.live(m) || !a.answered(m) || p.token != 0 {
			continue
		}
		ok := true
		for _, roster := range a.c.awaits {
			ok = ok && a.c.since[m] <= roster && a.now-at > a.settle
		}
		if ok {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return
	}
	m := able[a.rng.IntN(len(able))]
	a.c.token++
	a.c.owner = m
	a.c.renewed[m] = a.now
	a.players[m].order, a.players[m].replaces = a.c.token, len(a.c.awaits) > 0
}

// run reports whether two attempts were alive at the same time, and how many times a node was declared lost.
func (a *attack) run() (overlap bool, verdicts int) {
	calm := a.now + int64(a.rng.IntN(20))*s
	for end := a.now + episode; a.now < end; a.now += step {
		if a.now > calm && a.rng.IntN(12) == 0 {
			if a.rng.IntN(12) == 0 {
				calm = a.now + (5+a.rng.Int64N(60))*s
			}
			a.disturb()
		}
		for _, i := range a.rng.Perm(len(a.players)) {
			if a.live(i) {
				a.agent(i)
			}
			a.shim(a.players[i])
		}
		a.deliver()
		a.lead()
		alive := 0
		for _, p := range a.players {
			if p.token != 0 {
				alive++
			}
		}
		if alive > 1 {
			return true, a.c.verdicts
		}
	}
	return false, a.c.verdicts
}

func TestNoTwoAttemptsUnderAttack(t *testing.T) {
	episodes := 1500
	if testing.Short() {
		episodes = 300
	}
	verdicts := 0
	for seed := range uint64(episodes) {
		overlap, n := newAttack(seed, Timing{}, 8*s).run()
		require.False(t, overlap, "seed %d: two attempts were alive at a time", seed)
		verdicts += n
	}
	require.Greater(t, verdicts, episodes/10, "the attack is too tame to show anything")
}

// The attack must be able to find overlaps: it does when a rule is broken.
func TestTheAttackBites(t *testing.T) {
	for what, weaken := range map[string]func(*attack){
		// Each of the two waits, of the coordinators and of the agents, alone prevents overlaps here, so this drops
		// both.
		"replacements do not wait": func(a *attack) {
			a.settle = 0
			for _, p := range a.players {
				p.k.timing.Settle, a.timing.Settle = -a.timing.Window, -a.timing.Window
			}
		},
		"no time to stop": func(a *attack) {
			for _, p := range a.players {
				p.k.timing.Margin, a.timing.Margin = -5*time.Second, -5*time.Second
			}
		},
		"an old word counts": func(a *attack) {
			for _, p := range a.players {
				p.k.timing.Window, a.timing.Window = 30*time.Second, 30*time.Second
				p.k.timing.Settle, a.timing.Settle = -25*time.Second, -25*time.Second
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			for seed := range uint64(4000) {
				a := newAttack(seed, Timing{}.withDefaults(), 8*s)
				weaken(a)
				if overlap, _ := a.run(); overlap {
					return
				}
			}
			require.Fail(t, "not found")
		})
	}
}
