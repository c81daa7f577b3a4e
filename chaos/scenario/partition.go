package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
)

// Network can drop packets between its members, which have the names of the components.
type Network interface {
	// Cut drops the packets from one member to another.
	Cut(from, to string) error
	// Part drops all packets between the members of a and the members of b.
	Part(a, b []string) error
	// Heal undoes all cuts.
	Heal() error
	// Others returns all members except the named ones.
	Others(but ...string) []string
}

// errNoNetwork is returned if a cluster cannot be partitioned.
var errNoNetwork = errors.New("the members of this cluster share one network: only a cluster in network namespaces can be partitioned")

// cut is one way to break a network for a while.
type cut struct {
	kind string
	// make makes the cuts. It gets the present leader.
	make func(f *Fight, leader string, coordinators []string) error
}

var leaderCuts = []cut{
	{"partition-leader", func(f *Fight, leader string, coordinators []string) error {
		return f.Network.Part([]string{leader}, without(coordinators, leader))
	}},
	{"partition-leader-deaf", func(f *Fight, leader string, coordinators []string) error {
		return each(without(coordinators, leader), func(c string) error { return f.Network.Cut(c, leader) })
	}},
	{"partition-leader-mute", func(f *Fight, leader string, coordinators []string) error {
		return each(without(coordinators, leader), func(c string) error { return f.Network.Cut(leader, c) })
	}},
	{"isolate-leader", func(f *Fight, leader string, _ []string) error {
		return f.Network.Part([]string{leader}, f.Network.Others(leader))
	}},
	{"isolate-follower", func(f *Fight, leader string, coordinators []string) error {
		follower := without(coordinators, leader)[0]
		return f.Network.Part([]string{follower}, f.Network.Others(follower))
	}},
}

// Partition cuts coordinators off from each other, in a different way in each round: the leader from the others in both
// directions, then only in the direction to it, then only in the direction from it; then the leader and a follower from
// all others.
func Partition(rounds int, length time.Duration, load Load) Attack {
	return Attack{
		Name: "partition", Load: load, Rounds: rounds, Between: 500 * time.Millisecond, Takes: true,
		Fault: func(ctx context.Context, f *Fight) (err error) {
			if f.Network == nil {
				return errNoNetwork
			}
			c := leaderCuts[(f.Round-1)%len(leaderCuts)]
			leader, coordinators, err := f.coordinators(ctx)
			if err != nil {
				return err
			}
			began := time.Now()
			if err := c.make(f, leader, coordinators); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Network.Heal()) }()
			if err := f.Outage(ctx, c.kind, began); err != nil {
				return err
			}
			if wait.For(ctx, length-time.Since(began)); ctx.Err() != nil {
				return ctx.Err()
			}
			if err := f.Network.Heal(); err != nil {
				return err
			}
			return f.allBack(ctx)
		},
	}
}

// NodeCutOff cuts a node off from all others until its replaceable jobs run elsewhere, and then heals the network.
func NodeCutOff(load Load) Attack {
	return Attack{
		Name: "node-cut-off", Load: load, Rounds: 1, Replaces: true,
		Fault: func(ctx context.Context, f *Fight) (err error) {
			if f.Network == nil {
				return errNoNetwork
			}
			agent, err := f.busiest(ctx)
			if err == nil {
				wait.For(ctx, acquainted)
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			began := time.Now()
			if err := f.Network.Part([]string{agent.NodeID}, f.Network.Others(agent.NodeID)); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Network.Heal()) }()
			if err := f.lost(ctx, "node-cut-off", agent.NodeID, began, 0); err != nil {
				return err
			}
			if err := f.Network.Heal(); err != nil {
				return err
			}
			return f.nodeBack(ctx, agent.NodeID)
		},
	}
}

// NodesWithoutCoordinators cuts agents off from the coordinators for longer than the leases of their jobs: one agent,
// whose peers can still reach it and relay its renewals, or all agents, so that no node could run a replacement. In
// both cases all jobs must keep running.
func NodesWithoutCoordinators(all bool, length time.Duration, load Load) Attack {
	kind := "node-without-coordinators"
	if all {
		kind = "nodes-without-coordinators"
	}
	return Attack{
		Name: kind, Load: load, Rounds: 1,
		Fault: func(ctx context.Context, f *Fight) (err error) {
			if f.Network == nil {
				return errNoNetwork
			}
			_, coordinators, err := f.coordinators(ctx)
			if err != nil {
				return err
			}
			agent, err := f.busiest(ctx)
			if err == nil {
				wait.For(ctx, acquainted)
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			cut := []string{agent.NodeID}
			if all {
				info, err := f.Cluster.Info()
				if err != nil {
					return err
				}
				cut = nil
				for _, a := range info.Agents {
					cut = append(cut, a.NodeID)
				}
			}
			began := time.Now()
			if err := f.Network.Part(cut, coordinators); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Network.Heal()) }()
			if err := f.Outage(ctx, kind, began); err != nil {
				return err
			}
			if wait.For(ctx, length-time.Since(began)); ctx.Err() != nil {
				return ctx.Err()
			}
			if err := f.Network.Heal(); err != nil {
				return err
			}
			for _, node := range cut {
				if err := f.nodeBack(ctx, node); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (f *Fight) coordinators(ctx context.Context) (leader string, all []string, err error) {
	p, err := f.Cluster.Leader(ctx)
	if err != nil {
		return "", nil, err
	}
	info, err := f.Cluster.Info()
	for _, c := range info.Coordinators {
		all = append(all, c.ID)
	}
	return p.ID, all, err
}

// allBack waits until every component reports that it is ready.
func (f *Fight) allBack(ctx context.Context) error {
	info, err := f.Cluster.Info()
	if err != nil {
		return err
	}
	for _, list := range [][]procs.Component{info.Coordinators, info.Agents} {
		for _, p := range list {
			if err := f.Cluster.WaitReady(ctx, p); err != nil {
				return fmt.Errorf("after the partition: %w", err)
			}
		}
	}
	return nil
}

func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

func each(list []string, do func(string) error) error {
	for _, s := range list {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}
