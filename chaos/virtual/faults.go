package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. All but the instantaneous ones last for a while and are then healed.
const (
	CrashCoordinator Kind = "crash coordinator" // SIGKILL, and a restart with its disk
	PowerCoordinator Kind = "power coordinator" // its machine loses power: its peers see no closed connections
	StopCoordinator  Kind = "stop coordinator"  // SIGSTOP
	CrashAgent       Kind = "crash agent"       // SIGKILL; its tasks keep running
	PowerNode        Kind = "power node"        // the machine loses power, and restarts with another boot id
	StopAgent        Kind = "stop agent"
	Isolate          Kind = "isolate"    // one component from all others
	Split            Kind = "split"      // all components into two halves
	CutOneWay        Kind = "cut oneway" // one direction of some links
	CutPlanes        Kind = "cut planes" // coordinators from agents; each side stays connected
	Loss             Kind = "loss"       // on all links, with delay and doubled packets
	Stalls           Kind = "stalls"
	SlowDisk         Kind = "slow disk"
	BrokenDisk       Kind = "broken disk" // the replica stops by itself, and is started again
	IllGPU           Kind = "ill gpu"
	Transfer         Kind = "transfer" // an operator transfers leadership
	Quota            Kind = "quota"    // an operator sets limits, changes them, and removes them
	Replace          Kind = "replace"  // an operator removes a coordinator for good, and another one replaces it
)

// AllKinds has all kinds of faults.
var AllKinds = []Kind{
	CrashCoordinator, PowerCoordinator, StopCoordinator, CrashAgent, PowerNode, StopAgent, Isolate, Split, CutOneWay, CutPlanes,
	Loss, Stalls, SlowDisk, BrokenDisk, IllGPU, Transfer, Quota, Replace,
}

// Fault is a fault at a time after the beginning.
type Fault struct {
	At, For time.Duration
	Kind    Kind
	// Seed draws which component it hits, and its details.
	Seed uint64
}

func (f Fault) String() string {
	return fmt.Sprintf("%s for %s: %s", f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Kind)
}

// Schedule draws faults for a length of time, one about every pause. Each schedule prefers some of the kinds.
func Schedule(seed uint64, length, pause time.Duration, kinds []Kind) []Fault {
	r := rand.New(rand.NewPCG(seed, 4))
	weights := make([]float64, len(kinds))
	sum := 0.0
	for i := range weights {
		weights[i] = r.ExpFloat64()
		sum += weights[i]
	}
	var all []Fault
	for at := time.Duration(0); ; {
		at += time.Duration(r.ExpFloat64() * float64(pause))
		if at >= length {
			return all
		}
		pick := r.Float64() * sum
		kind := kinds[0]
		for i, w := range weights {
			if pick -= w; pick < 0 {
				kind = kinds[i]
				break
			}
		}
		// Most faults are short, but some last longer than every timeout.
		last := time.Duration(r.ExpFloat64() * float64(15*time.Second))
		if r.IntN(5) == 0 {
			last += time.Duration(r.Int64N(int64(3 * time.Minute)))
		}
		all = append(all, Fault{At: at, For: last, Kind: kind, Seed: r.Uint64()})
	}
}

// Attack inflicts a schedule of faults on a cluster and heals all of them at the end.
type Attack struct {
	cluster *Cluster
	mu      sync.Mutex
	counts  map[Kind]int
	// cuts, stops and downs count the faults that affect a link or a component, so that the end of one does not heal
	// another.
	cuts  map[network.Link]int
	stops map[string]int
	downs map[string]int
	rough map[int]network.Weather
	// operators is the client of the operators; replacing makes them replace one coordinator at a time.
	operators *client.Client
	replacing sync.Mutex
	begun     []int // seats of coordinators whose removal was given up
	going     sync.WaitGroup
}

// Attack runs a schedule of faults, and returns when all of them are healed.
func (c *Cluster) Attack(faults []Fault) *Attack {
	a := &Attack{cluster: c, counts: map[Kind]int{}, cuts: map[network.Link]int{}, stops: map[string]int{}, downs: map[string]int{}, rough: map[int]network.Weather{}, operators: c.Client()}
	began := time.Now()
	for i, f := range faults {
		time.Sleep(time.Until(began.Add(f.At)))
		a.going.Go(func() { a.inflict(i, f) })
	}
	a.going.Wait()
	a.Heal()
	return a
}

// Heal heals all faults and starts all components that are down.
func (a *Attack) Heal() {
	c := a.cluster
	coordinators, agents := c.IPs()
	all := append(coordinators, agents...)
	for _, ip := range all {
		c.Continue(ip)
		for _, other := range append(all, c.users.IP()) {
			if other != ip {
				c.Network.Set(ip, other, network.Weather{})
				c.Network.Set(other, ip, network.Weather{})
			}
		}
	}
	for i, r := range c.places() {
		r.disk.Slow(0)
		r.disk.Break(false)
		c.Revive(i)
	}
	for i, n := range c.agents {
		for g := range n.machine.GPUs() {
			n.machine.Ill(g, "")
		}
		c.StartAgent(i)
	}
	a.unlimit(context.Background())
	a.finish(context.Background())
}

// Revive starts a coordinator that does not run, also one that stopped by itself.
func (c *Cluster) Revive(i int) {
	c.mu.Lock()
	r := c.coordinators[i].run
	c.mu.Unlock()
	if r != nil {
		select {
		case <-r.ended:
			c.CrashCoordinator(i, false)
		default:
			return
		}
	}
	c.StartCoordinator(i)
}

// Report returns the number of faults of each kind.
func (a *Attack) Report() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var parts []string
	for k, n := range a.counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, k))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

func (a *Attack) inflict(n int, f Fault) {
	c := a.cluster
	r := rand.New(rand.NewPCG(f.Seed, 5))
	a.mu.Lock()
	a.counts[f.Kind]++
	a.mu.Unlock()
	ctx := context.Background()
	last := func() { wait.For(ctx, f.For) }
	one := r.IntN(len(c.places()))
	seat := c.place(one)
	node := r.IntN(len(c.agents))
	switch f.Kind {
	case CrashCoordinator, PowerCoordinator:
		a.down(seat.ip, n, f, func() { c.CrashCoordinator(one, f.Kind == PowerCoordinator) }, last, func() { c.StartCoordinator(one) })
	case CrashAgent, PowerNode:
		a.down(c.agents[node].id, n, f, func() { c.CrashAgent(node, f.Kind == PowerNode) }, last, func() { c.StartAgent(node) })
	case StopCoordinator:
		a.halt(seat.ip, f, last)
	case StopAgent:
		a.halt(c.agents[node].ip, f, last)
	case SlowDisk:
		c.log.note("fault", fmt.Sprint(f, " of ", seat.id))
		seat.disk.Slow(time.Duration(r.Int64N(int64(2 * time.Second))))
		last()
		seat.disk.Slow(0)
	case BrokenDisk:
		c.log.note("fault", fmt.Sprint(f, " of ", seat.id))
		seat.disk.Break(true)
		last()
		seat.disk.Break(false)
		a.mu.Lock()
		down := a.downs[seat.ip] > 0
		a.mu.Unlock()
		if !down {
			c.Revive(one)
		}
	case IllGPU:
		gpu := r.IntN(c.GPUs)
		c.log.note("fault", fmt.Sprint(f, " ", gpu, " of ", c.agents[node].id))
		c.agents[node].machine.Ill(gpu, "Xid 79: the GPU has fallen off the bus")
		last()
		c.agents[node].machine.Ill(gpu, "")
	case Transfer:
		to := seat.id
		if r.IntN(2) == 0 {
			to = "" // the most up-to-date replica
		}
		c.log.note("fault", fmt.Sprint(f, " to ", to))
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		// A partitioned cluster may refuse: the leader must then continue to lead.
		_, _ = a.operators.Operators().TransferLeadership(client.WithCall(ctx, client.Call{Operator: true}), &v1.TransferLeadershipRequest{To: to})
	case Quota:
		a.limit(ctx, f, r)
	case Replace:
		a.replace(ctx, f, r, one)
	case Loss, Stalls:
		w := network.Weather{Delay: time.Duration(r.Int64N(int64(20 * time.Millisecond))), Jitter: time.Duration(1 + r.Int64N(int64(50*time.Millisecond)))}
		if f.Kind == Loss {
			w.Loss, w.Double = 0.02+0.2*r.Float64(), 0.1*r.Float64()
		} else {
			w.Stall, w.StallFor = 0.05*r.Float64(), time.Duration(r.Int64N(int64(6*time.Second)))
		}
		c.log.note("fault", fmt.Sprint(f, fmt.Sprintf(" %+v", w)))
		a.weather(n, &w)
		last()
		a.weather(n, nil)
	default:
		a.cut(f, a.links(f, r), last)
	}
}

// down keeps a component from running. If several faults do, the last one to end starts it again.
func (a *Attack) down(id string, _ int, f Fault, crash, last, start func()) {
	a.cluster.log.note("fault", fmt.Sprint(f, " ", id))
	a.mu.Lock()
	a.downs[id]++
	a.mu.Unlock()
	crash()
	last()
	a.mu.Lock()
	a.downs[id]--
	again := a.downs[id] == 0
	a.mu.Unlock()
	if again {
		start()
	}
}

func (a *Attack) halt(ip string, f Fault, last func()) {
	a.cluster.log.note("fault", fmt.Sprint(f, " ", ip))
	a.mu.Lock()
	a.stops[ip]++
	a.mu.Unlock()
	a.cluster.Stop(ip)
	last()
	a.mu.Lock()
	a.stops[ip]--
	free := a.stops[ip] == 0
	a.mu.Unlock()
	if free {
		a.cluster.Continue(ip)
	}
}

// links returns the links that a fault cuts.
func (a *Attack) links(f Fault, r *rand.Rand) []network.Link {
	coordinators, agents := a.cluster.IPs()
	all := append(slices.Clone(coordinators), agents...)
	var cut []network.Link
	between := func(some, others []string) {
		for _, x := range some {
			for _, y := range others {
				if x != y {
					cut = append(cut, network.Link{From: x, To: y}, network.Link{From: y, To: x})
				}
			}
		}
	}
	switch f.Kind {
	case Isolate:
		at := r.IntN(len(all))
		between(all[at:at+1], append(slices.Clone(all), a.cluster.users.IP()))
	case Split:
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		at := 1 + r.IntN(len(all)-1)
		between(all[:at], all[at:])
	case CutPlanes:
		between(coordinators, agents)
	case CutOneWay:
		for _, x := range all {
			for _, y := range all {
				if x != y && r.IntN(4) == 0 {
					cut = append(cut, network.Link{From: x, To: y})
				}
			}
		}
	}
	return cut
}

func (a *Attack) cut(f Fault, links []network.Link, last func()) {
	a.cluster.log.note("fault", fmt.Sprint(f, " ", links))
	a.mu.Lock()
	for _, d := range links {
		a.cuts[d]++
	}
	a.mu.Unlock()
	for _, d := range links {
		a.cluster.Network.Cut(d.From, d.To, true)
	}
	last()
	a.mu.Lock()
	var free []network.Link
	for _, d := range links {
		if a.cuts[d]--; a.cuts[d] == 0 {
			free = append(free, d)
		}
	}
	a.mu.Unlock()
	for _, d := range free {
		a.cluster.Network.Cut(d.From, d.To, false)
	}
	a.cluster.log.note("fault", "joined again")
}

// weather sets the weather of all links to the worst of the present faults; cuts stay.
func (a *Attack) weather(n int, w *network.Weather) {
	a.mu.Lock()
	if w == nil {
		delete(a.rough, n)
	} else {
		a.rough[n] = *w
	}
	var all network.Weather
	for _, one := range a.rough {
		all.Delay, all.Jitter = max(all.Delay, one.Delay), max(all.Jitter, one.Jitter)
		all.Loss, all.Double = max(all.Loss, one.Loss), max(all.Double, one.Double)
		all.Stall, all.StallFor = max(all.Stall, one.Stall), max(all.StallFor, one.StallFor)
	}
	a.mu.Unlock()
	a.cluster.Weather(all)
}

// Weather sets the weather of all links between components, except cuts.
func (c *Cluster) Weather(w network.Weather) {
	coordinators, agents := c.IPs()
	all := append(coordinators, agents...)
	c.Network.SetAll(all, w)
}
