package client

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// target is one coordinator.
type target struct {
	addr  string
	conns []*grpc.ClientConn
	turn  atomic.Uint32
	// ill is the time, in Unix nanoseconds, until which the coordinator is used only if no other is left.
	ill atomic.Int64
	// heard is the time of its last answer, in Unix nanoseconds.
	heard atomic.Int64
	// silent counts the periods in a row in which it did not answer.
	silent atomic.Int32
}

// illBroken is how long a coordinator is avoided after its connection failed, and illSilent how long after it first did
// not answer in time. Each check costs a caller its time, so the latter doubles up to maxIllSilent while the
// coordinator stays silent.
const (
	illBroken    = 200 * time.Millisecond
	illSilent    = 1500 * time.Millisecond
	maxIllSilent = 12 * time.Second
)

func (c *Client) connect(addr string) (*target, error) {
	t := &target{addr: addr}
	for range c.config.Conns {
		conn, err := grpc.NewClient("passthrough:///"+addr, c.dial...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("coordinator %s: %w", addr, err), t.close())
		}
		t.conns = append(t.conns, conn)
	}
	return t, nil
}

func (t *target) conn() *grpc.ClientConn {
	if len(t.conns) == 1 {
		return t.conns[0]
	}
	return t.conns[int(t.turn.Add(1))%len(t.conns)]
}

func (t *target) avoid(d time.Duration) { t.ill.Store(time.Now().Add(d).UnixNano()) }

// fellSilent records that the coordinator accepted a call and did not answer in time. Concurrent calls count once.
func (t *target) fellSilent() {
	if !t.healthy(time.Now().UnixNano()) {
		return
	}
	d := illSilent << min(t.silent.Add(1)-1, 8)
	t.avoid(min(d, maxIllSilent))
}

func (t *target) healthy(now int64) bool { return t.ill.Load() <= now }

// recovered records that the coordinator answered.
func (t *target) recovered() {
	if t.ill.Load() != 0 {
		t.ill.Store(0)
	}
	if t.silent.Load() != 0 {
		t.silent.Store(0)
	}
	t.heard.Store(time.Now().UnixNano())
}

func (t *target) close() error {
	var errs []error
	for _, conn := range t.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// pick returns the coordinator to call: the leader, unless it was called in this round or is avoided; otherwise the
// next one that was not called in this round and is not avoided; otherwise the one that is avoided for the shortest
// time. tried has a bit for each target that was called in this round; after the last one a new round begins.
func (c *Client) pick(tried *uint64, preferLeader bool) *target {
	targets := *c.targets.Load()
	all := uint64(1)<<len(targets) - 1
	if *tried&all == all {
		*tried = 0
	}
	now := time.Now().UnixNano()
	if preferLeader {
		if l := c.leader.Load(); l != nil && l.target.healthy(now) {
			if i := indexOf(targets, l.target); i >= 0 && *tried&(1<<i) == 0 {
				*tried |= 1 << i
				return l.target
			}
		}
	}
	start := int(c.next.Add(1) % uint32(len(targets)))
	fallback := -1
	for k := range targets {
		i := (start + k) % len(targets)
		if *tried&(1<<i) != 0 {
			continue
		}
		if targets[i].healthy(now) {
			*tried |= 1 << i
			return targets[i]
		}
		if fallback < 0 || targets[i].ill.Load() < targets[fallback].ill.Load() {
			fallback = i
		}
	}
	*tried |= 1 << fallback
	return targets[fallback]
}

func indexOf(targets []*target, t *target) int {
	for i := range targets {
		if targets[i] == t {
			return i
		}
	}
	return -1
}

// learn records the leader that an answer named. A coordinator that carried out a call has just reached the leader. The
// name from another coordinator may be old, and is ignored if the named leader has just failed.
func (c *Client) learn(raw string, succeeded bool) {
	known := c.leader.Load()
	if known != nil && known.raw == raw {
		return
	}
	id, addr, ok := strings.Cut(raw, "=")
	if !ok || addr == "" {
		return
	}
	t := c.target(addr)
	if t == nil {
		return
	}
	if !t.healthy(time.Now().UnixNano()) {
		if !succeeded {
			return
		}
		t.ill.Store(0)
	}
	c.leader.CompareAndSwap(known, &leader{raw: raw, id: id, target: t})
}

// forget forgets the leader if it is t.
func (c *Client) forget(t *target) {
	if l := c.leader.Load(); l != nil && l.target == t {
		c.leader.CompareAndSwap(l, nil)
	}
}

// target returns the target with an address, and creates it if there is none. It returns nil if it cannot.
func (c *Client) target(addr string) *target {
	for _, t := range *c.targets.Load() {
		if t.addr == addr {
			return t
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	targets := *c.targets.Load()
	for _, t := range targets {
		if t.addr == addr {
			return t
		}
	}
	if c.closed || len(targets) >= maxTargets-1 {
		return nil
	}
	t, err := c.connect(addr)
	if err != nil {
		return nil
	}
	grown := append(append([]*target{}, targets...), t)
	c.targets.Store(&grown)
	return t
}
