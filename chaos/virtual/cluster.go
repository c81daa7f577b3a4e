package virtual

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/agent"
	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/chaos/check"
	"github.com/mindcoordinator/mind/chaos/virtual/disk"
	"github.com/mindcoordinator/mind/chaos/virtual/machine"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
	"github.com/mindcoordinator/mind/coordinator"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/raftnode"
)

// Ports of all hosts.
const (
	portGRPC   = 7000
	portHTTP   = 7001
	portRaft   = 7002
	portGossip = 7003
)

// Options configure a Cluster.
type Options struct {
	Coordinators, Agents int
	// GPUs is the number of GPUs of each agent's machine; default 4.
	GPUs int
	Seed uint64
	// Drift limits how much the clocks of machines run fast or slow; each draws its own drift. Skew limits how far the
	// clocks of coordinators are from true time.
	Drift float64
	Skew  time.Duration
	// Heartbeat is used for Raft's heartbeat, election and lease timeouts; 0: 1 s, which makes virtual time pass
	// quickly.
	Heartbeat time.Duration
	// Commit is Raft's commit timeout, after which followers learn the newest committed entry; 0: 100 ms, for the same
	// reason.
	Commit time.Duration
	// SnapshotThreshold is the number of entries after which replicas take snapshots; 0: 512.
	SnapshotThreshold uint64
	// ImmortalTasks makes shims ignore their deadlines, and ForgetfulDisks makes disks lose the last writes when a
	// coordinator crashes. Tests break clusters with them, and check that the checkers notice.
	ImmortalTasks, ForgetfulDisks bool
	// Dir holds the files of the machines.
	Dir string
}

// Cluster is a simulated cluster.
type Cluster struct {
	Options
	Network  *network.Network
	Findings *check.Findings
	World    *check.World
	Replicas *check.Replicas
	log      *journal
	rand     *rand.Rand

	mu sync.Mutex
	// coordinators are the seats of the coordinators. The coordinator in a seat may be replaced by another one.
	coordinators []*replica
	// founders are the initial coordinators, and replaced is the number of coordinators that have replaced others
	// since.
	founders []coordinator.Peer
	replaced int
	agents   []*node
	ending   sync.WaitGroup
	clients  []*client.Client
	users    *network.Host
}

// replica is a coordinator with its disk and addresses, which exist without a process.
type replica struct {
	id   string
	ip   string
	disk *disk.Disk
	skew time.Duration
	// run is the running process; nil: there is none.
	run *run
	// view is the state that it published last.
	view *fsm.View
	// joins: it is not a founder, and asks the others to add it. leaves: it is being replaced, and must not be started
	// again.
	joins, leaves bool
}

// node is an agent with its machine, which exists without the agent's process.
type node struct {
	id      string
	ip      string
	machine *machine.Machine
	run     *run
	life    *machine.Life
}

// run is one process of a component.
type run struct {
	host   *network.Host
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	dead   atomic.Bool // it was crashed: its error does not matter
}

// New makes a cluster whose components do not run yet. It must be called inside a bubble, and Close must be called
// before the bubble's end.
func New(o Options) *Cluster {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Heartbeat, time.Second)
	def(&o.Commit, 100*time.Millisecond)
	if o.GPUs == 0 {
		o.GPUs = 4
	}
	if o.SnapshotThreshold == 0 {
		o.SnapshotThreshold = 512
	}
	c := &Cluster{Options: o, Network: network.New(o.Seed), Findings: &check.Findings{}, log: newJournal(), rand: rand.New(rand.NewPCG(o.Seed, 3))}
	c.World, c.Replicas = check.NewWorld(c.Findings), check.NewReplicas(c.Findings)
	for i := range o.Coordinators {
		r := &replica{id: fmt.Sprintf("c%d", i+1), ip: fmt.Sprintf("10.0.0.%d", i+1), disk: disk.New(o.Seed*1000+uint64(i), o.ForgetfulDisks)}
		if o.Skew > 0 {
			r.skew = time.Duration(c.rand.Int64N(2*int64(o.Skew))) - o.Skew
		}
		c.coordinators = append(c.coordinators, r)
		c.founders = append(c.founders, coordinator.Peer{ID: r.id, RaftAddr: at(r.ip, portRaft), GRPCAddr: at(r.ip, portGRPC), HTTPAddr: at(r.ip, portHTTP)})
	}
	for i := range o.Agents {
		id := fmt.Sprintf("n%d", i+1)
		drift := (2*c.rand.Float64() - 1) * o.Drift
		c.agents = append(c.agents, &node{id: id, ip: fmt.Sprintf("10.0.1.%d", i+1), machine: machine.New(machine.Spec{
			Name: id, Home: filepath.Join(o.Dir, id), GPUs: o.GPUs, Drift: drift, Immortal: o.ImmortalTasks, World: c.World,
		})})
	}
	c.users = c.Network.Host("10.0.2.1")
	return c
}

// Start starts every component.
func (c *Cluster) Start() {
	for i := range c.places() {
		c.StartCoordinator(i)
	}
	for i := range c.agents {
		c.StartAgent(i)
	}
}

// Close ends all components, and the processes of tasks.
func (c *Cluster) Close() {
	for _, cl := range c.clients {
		_ = cl.Close()
	}
	for i := range c.places() {
		c.CrashCoordinator(i, false)
	}
	for i := range c.agents {
		c.CrashAgent(i, false)
		c.agents[i].machine.Reboot()
		c.agents[i].machine.Wait()
	}
	c.users.Kill(false)
	c.ending.Wait()
}

// places returns the present coordinators, by seat.
func (c *Cluster) places() []*replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.coordinators)
}

// place returns the present coordinator in a seat.
func (c *Cluster) place(i int) *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.coordinators[i]
}

// IPs returns the addresses of the components, for the weather.
func (c *Cluster) IPs() (coordinators, agents []string) {
	for _, r := range c.places() {
		coordinators = append(coordinators, r.ip)
	}
	for _, n := range c.agents {
		agents = append(agents, n.ip)
	}
	return coordinators, agents
}

func at(ip string, port int) string { return fmt.Sprintf("%s:%d", ip, port) }

func (c *Cluster) gossipSeeds() []string {
	var all []string
	for _, r := range c.coordinators { // a seat keeps its address when its coordinator is replaced
		all = append(all, at(r.ip, portGossip))
	}
	return all
}

// StartCoordinator starts a coordinator that does not run, with the contents of its disk.
func (c *Cluster) StartCoordinator(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.coordinators[i]
	if r.run != nil || r.leaves {
		return
	}
	host := c.Network.Host(r.ip)
	gossip, err := host.Gossip(portGossip)
	if err != nil {
		panic(err)
	}
	mount := r.disk.Mount()
	config := coordinator.Config{
		ID: r.id, DataDir: filepath.Join(c.Dir, r.id),
		GRPCAddr: host.Addr(portGRPC), HTTPAddr: host.Addr(portHTTP), RaftAddr: host.Addr(portRaft), GossipAddr: host.Addr(portGossip),
		GossipJoin: c.gossipSeeds(), Network: host, GossipTransport: gossip, Logger: slog.New(c.log.of(r.id)),
		Timers: coordinator.Timers{RaftHeartbeat: c.Heartbeat, RaftElection: c.Heartbeat, RaftLeaderLease: c.Heartbeat},
	}
	if r.joins {
		for _, other := range c.coordinators {
			if other != r {
				config.JoinVia = append(config.JoinVia, at(other.ip, portGRPC))
			}
		}
	} else {
		config.Peers = slices.Clone(c.founders)
	}
	config.RaftTuning = func(rc *raftnode.Config) {
		rc.Stores = func() (raftnode.Store, raft.SnapshotStore, error) { return mount, mount, nil }
		rc.CommitTimeout = c.Commit
		rc.SnapshotThreshold, rc.TrailingLogs, rc.SnapshotInterval = c.SnapshotThreshold, c.SnapshotThreshold/2, 30*time.Second
		rc.Now = func() time.Time { return time.Now().Add(r.skew) }
	}
	this := newRun(host)
	observe := c.Replicas.Observer(r.id)
	config.Observe = func(v *fsm.View, events []event.Event) {
		if this.dead.Load() {
			return
		}
		observe(v, events)
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.run == this {
			r.view = v
		}
	}
	r.run = this
	c.begin(r.id, this, func(ctx context.Context) error { return coordinator.Run(ctx, config) })
}

// CrashCoordinator ends a coordinator at once. power: its machine loses power, too, so that its peers see no closed
// connections.
func (c *Cluster) CrashCoordinator(i int, power bool) {
	c.mu.Lock()
	r := c.coordinators[i]
	this := r.run
	r.run, r.view = nil, nil
	c.mu.Unlock()
	if this != nil {
		r.disk.Unmount()
		this.crash(power)
	}
}

// StartAgent starts an agent that does not run, with the files and processes of its machine.
func (c *Cluster) StartAgent(i int) {
	n := c.agents[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.run != nil {
		return
	}
	host := c.Network.Host(n.ip)
	gossip, err := host.Gossip(portGossip)
	if err != nil {
		panic(err)
	}
	if n.life, err = n.machine.Begin(host); err != nil {
		panic(err)
	}
	config := agent.Config{
		NodeID: n.id, DataDir: n.life.Dir(), GRPCAddr: host.Addr(portGRPC), GossipAddr: host.Addr(portGossip), GossipJoin: c.gossipSeeds(),
		CPUs: 64, MemMB: 512 << 10, Hostname: n.id, KeepTasks: 50, KeepTasksFor: 12 * time.Hour, Logger: slog.New(c.log.of(n.id)),
		Machine: agent.Machine{
			Network: host, GossipTransport: gossip, Processes: n.life, Devices: n.machine.Devices(),
			BootID: n.machine.BootID(), Clock: n.machine.Clock,
		},
	}
	for _, r := range c.coordinators { // the lock is held
		config.Coordinators = append(config.Coordinators, at(r.ip, portGRPC))
	}
	n.run = newRun(host)
	c.begin(n.id, n.run, func(ctx context.Context) error { return agent.Run(ctx, config) })
}

// CrashAgent ends an agent at once; its machine keeps running. power: the machine loses power, too, and all processes
// die.
func (c *Cluster) CrashAgent(i int, power bool) {
	n := c.agents[i]
	c.mu.Lock()
	this, life := n.run, n.life
	n.run = nil
	c.mu.Unlock()
	if this != nil {
		life.Crash()
		c.ending.Go(func() {
			<-this.ended
			life.Bury()
		})
		this.crash(power)
	}
	if power {
		n.machine.Reboot()
	}
}

func newRun(host *network.Host) *run { return &run{host: host, ended: make(chan struct{})} }

// begin starts a process.
func (c *Cluster) begin(id string, r *run, main func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	c.log.note(id, "starts")
	c.ending.Go(func() {
		defer close(r.ended)
		r.err = main(ctx)
		if !r.dead.Load() {
			c.log.note(id, fmt.Sprint("ended by itself: ", r.err))
			if id[0] == 'n' {
				c.Findings.Add("agent %s ended by itself: %v", id, r.err)
			}
			r.host.Kill(false)
		}
	})
}

// crash ends a process: it has no effects from here on, however long its goroutines take to end.
func (r *run) crash(power bool) {
	r.dead.Store(true)
	r.host.Kill(power)
	r.cancel()
}

// Stop suspends a component like SIGSTOP, until Continue.
func (c *Cluster) Stop(ip string) {
	if h := c.Network.At(ip); h != nil {
		h.Stop()
	}
}

// Continue resumes a stopped component.
func (c *Cluster) Continue(ip string) {
	if h := c.Network.At(ip); h != nil {
		h.Continue()
	}
}

// Client returns a client of the whole cluster.
func (c *Cluster) Client() *client.Client {
	var addrs []string
	for _, r := range c.places() {
		addrs = append(addrs, at(r.ip, portGRPC))
	}
	cl, err := client.Dial(client.Config{Addrs: addrs, DialOptions: []grpc.DialOption{grpc.WithContextDialer(c.users.Dial)}})
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, cl)
	return cl
}

// View returns the state that a running replica published last; nil: none.
func (c *Cluster) View(i int) *fsm.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.coordinators[i].view
}

// CheckViews checks the invariants of every replica's state.
func (c *Cluster) CheckViews() {
	for i, r := range c.places() {
		if v := c.View(i); v != nil {
			c.Replicas.View(r.id, v)
		}
	}
}

// Journal returns the last lines that the components logged.
func (c *Cluster) Journal(lines int) []string { return c.log.last(lines) }
