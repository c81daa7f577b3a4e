package gossip

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/virtual/network"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
)

var testKey = []byte("0123456789abcdef0123456789abcdef")

// longstop limits every wait. It is far longer than any wait of a correct pool.
const longstop = 2 * time.Minute

func join(t *testing.T, name, role string, seeds ...string) *Pool {
	t.Helper()
	return start(t, Config{Name: name, Role: role, Join: seeds, Meta: map[string]string{"grpc": "addr of " + name}})
}

// start starts a member at a port that no other test uses, so that it can start there again.
func start(t *testing.T, cfg Config) *Pool {
	t.Helper()
	cfg.SecretKey, cfg.Bind = testKey, porttest.Claim(t)
	p, err := Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Leave(context.Background()) })
	return p
}

// await waits until ok accepts the named member in the view of a pool. wanted says in a failure what ok waits for.
func await(t *testing.T, p *Pool, name string, wanted string, ok func(Member) bool) Member {
	t.Helper()
	changes := p.Changes()
	late := time.After(longstop)
	for {
		for _, m := range p.Members() {
			if m.Name == name && ok(m) {
				return m
			}
		}
		select {
		case <-changes:
		case <-late:
			require.Failf(t, "too late", "%s does not see %s %s: %+v", p.cfg.Name, name, wanted, p.Members())
		}
	}
}

func is(s State) func(Member) bool { return func(m Member) bool { return m.State == s } }

// vanish ends a member without leaving, as SIGKILL would.
func (p *Pool) vanish(t *testing.T) {
	t.Helper()
	p.stop()
	p.joining.Wait()
	require.NoError(t, p.list.Shutdown())
	p.once.Do(func() { close(p.left) })
}

func TestPool_membersKnowEachOther(t *testing.T) {
	c1 := join(t, "c1", "coordinator")
	pools := []*Pool{c1, join(t, "c2", "coordinator", c1.Addr()), join(t, "n1", "agent", c1.Addr())}
	for _, p := range pools {
		for _, name := range []string{"c1", "c2", "n1"} {
			m := await(t, p, name, "alive", is(Alive))
			require.Equal(t, map[string]string{"grpc": "addr of " + name}, m.Meta)
			require.NotZero(t, m.Incarnation)
			require.NotZero(t, m.Since)
		}
		require.Equal(t, "agent", p.Members()[2].Role)
	}
	require.NoError(t, pools[2].SetMeta(map[string]string{"grpc": "moved"}))
	await(t, c1, "n1", "moved", func(m Member) bool { return m.Meta["grpc"] == "moved" })
	require.Error(t, pools[2].SetMeta(map[string]string{"grpc": strings.Repeat("x", 600)}))
}

// ether is the network of a test, in memory and in virtual time.
type ether struct {
	t     *testing.T
	net   *network.Network
	hosts int
}

// inEther runs a test in a bubble of synctest, with a network.
func inEther(t *testing.T, test func(e *ether)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Memberlist does not wait for its last probes when it stops, and a bubble must not end before they have.
		t.Cleanup(func() { time.Sleep(time.Minute) })
		test(&ether{t: t, net: network.New(1)})
	})
}

// start starts a member on a host, by default on a new one.
func (e *ether) start(cfg Config, ip string) (*Pool, *network.Host) {
	e.t.Helper()
	if ip == "" {
		e.hosts++
		ip = fmt.Sprintf("10.0.0.%d", e.hosts)
	}
	host := e.net.Host(ip)
	carrier, err := host.Gossip(7946)
	require.NoError(e.t, err)
	cfg.SecretKey, cfg.Bind, cfg.Transport = testKey, host.Addr(7946), carrier
	p, err := Start(cfg)
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		_ = p.Leave(context.Background())
		host.Kill(false)
	})
	return p, host
}

func (e *ether) join(name, role string, seeds ...string) *Pool {
	e.t.Helper()
	p, _ := e.start(Config{Name: name, Role: role, Join: seeds}, "")
	return p
}

func TestPool_deathIsSuspectedThenSeenThenHealed(t *testing.T) {
	inEther(t, func(e *ether) {
		t := e.t
		c1 := e.join("c1", "coordinator")
		pools := []*Pool{c1, e.join("c2", "coordinator", c1.Addr()), e.join("c3", "coordinator", c1.Addr()), e.join("n1", "agent", c1.Addr())}
		n2, host := e.start(Config{Name: "n2", Role: "agent", Join: []string{c1.Addr()}}, "")
		before := map[string]Member{}
		for _, p := range pools {
			before[p.cfg.Name] = await(t, p, "n2", "alive", is(Alive))
		}
		died := time.Now()
		host.Kill(false)
		n2.vanish(t)
		suspected := make(chan Member, len(pools))
		for _, p := range pools {
			go func() {
				changes := p.Changes()
				for {
					for _, m := range p.Members() {
						if m.Name == "n2" && m.State != Alive {
							suspected <- m
							return
						}
					}
					<-changes
				}
			}()
		}
		require.Equal(t, Suspect, (<-suspected).State, "the first to notice suspects")
		t.Logf("suspect after %v", time.Since(died))
		for _, p := range pools {
			m := await(t, p, "n2", "dead", is(Dead))
			require.True(t, m.Since.After(died))
			t.Logf("dead for %s after %v", p.cfg.Name, m.Since.Sub(died))
		}

		// n2 starts again at its address without seeds: the members that see it as dead contact it.
		e.start(Config{Name: "n2", Role: "agent"}, host.IP())
		for _, p := range pools {
			m := await(t, p, "n2", "alive again", is(Alive))
			require.Greater(t, m.Incarnation, before[p.cfg.Name].Incarnation)
		}
	})
}

func TestPool_goodbyeIsNotDeath(t *testing.T) {
	inEther(t, func(e *ether) {
		c1 := e.join("c1", "coordinator")
		n1 := e.join("n1", "agent", c1.Addr())
		await(e.t, c1, "n1", "alive", is(Alive))
		await(e.t, n1, "c1", "alive", is(Alive))
		require.NoError(e.t, n1.Leave(e.t.Context()))
		require.NoError(e.t, n1.Leave(e.t.Context()), "twice is no error")
		await(e.t, c1, "n1", "left", is(Left))
	})
}

func TestPool_joinIsTriedUntilSomebodyIsThere(t *testing.T) {
	hold := join(t, "holder", "agent")
	addr := hold.Addr()
	require.NoError(t, hold.Leave(t.Context()))
	n1 := join(t, "n1", "agent", addr) // no member listens there yet
	c1, err := Start(Config{Name: "c1", Role: "coordinator", Bind: addr, SecretKey: testKey})
	require.NoError(t, err)
	defer func() { require.NoError(t, c1.Leave(t.Context())) }()
	await(t, n1, "c1", "alive", is(Alive))
	await(t, c1, "n1", "alive", is(Alive))
}

func TestPool_strangersWithAnotherKeyStayOut(t *testing.T) {
	c1 := join(t, "c1", "coordinator")
	stranger, err := Start(Config{Name: "x", Role: "agent", Bind: "127.0.0.1:0", SecretKey: []byte("another key, 16b")})
	require.NoError(t, err)
	defer func() { require.NoError(t, stranger.Leave(t.Context())) }()
	n, err := stranger.list.Join([]string{c1.Addr()})
	require.Error(t, err)
	require.Zero(t, n)
	require.Len(t, c1.Members(), 1)
}

func TestStart_refusesABadConfiguration(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no name":      {Role: "agent", Bind: "127.0.0.1:0"},
		"no role":      {Name: "n1", Bind: "127.0.0.1:0"},
		"no port":      {Name: "n1", Role: "agent", Bind: "127.0.0.1"},
		"bad port":     {Name: "n1", Role: "agent", Bind: "127.0.0.1:x"},
		"bad key":      {Name: "n1", Role: "agent", Bind: "127.0.0.1:0", SecretKey: []byte("short")},
		"too much":     {Name: "n1", Role: "agent", Bind: "127.0.0.1:0", Meta: map[string]string{"x": strings.Repeat("x", 500)}},
		"bad announce": {Name: "n1", Role: "agent", Bind: "127.0.0.1:0", Advertise: "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(cfg)
			require.Error(t, err)
		})
	}
}

func TestView_ownSuspicionEndsByItself(t *testing.T) {
	v := newView(Config{}.logger(), "c1", about{})
	for i, state := range []State{Alive, Suspect, Alive} {
		name := fmt.Sprint(i)
		v.all[name] = &known{Member: Member{Name: name, State: Alive}}
		if state == Suspect {
			v.suspected(name)
		}
	}
	at := v.all["1"].suspectAt
	count := func(now time.Time) (suspects int) {
		for _, m := range v.members(now) {
			if m.State == Suspect {
				suspects++
			}
		}
		return suspects
	}
	require.Equal(t, 1, count(at.Add(suspectAtMost-1)))
	require.Zero(t, count(at.Add(suspectAtMost)))
}
