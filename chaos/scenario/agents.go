package scenario

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
)

// KillAgent kills the agent with the most jobs and brings it back at once. The jobs must keep running.
func KillAgent(rounds int, load Load) Attack {
	return Attack{
		Name: "kill-agent", Load: load, Rounds: rounds, Between: 500 * time.Millisecond,
		Fault: func(ctx context.Context, f *Fight) error {
			agent, err := f.busiest(ctx)
			if err != nil {
				return err
			}
			killed := time.Now()
			if err := f.Cluster.Kill(agent); err != nil {
				return err
			}
			if err := f.Outage(ctx, "kill-agent", killed); err != nil {
				return err
			}
			if err := f.Cluster.Revive(ctx, agent); err != nil {
				return err
			}
			return f.nodeBack(ctx, agent.NodeID)
		},
	}
}

// Away configures how an agent is taken away.
type Away struct {
	// Stop uses SIGSTOP instead of SIGKILL, which requires a cluster that does not restart its agents.
	Stop bool
	// For is the minimum time that the agent is away.
	For time.Duration
}

// AgentAway takes an agent away until each replaceable job on its node was replaced, and brings it back. Jobs without a
// retry keep running meanwhile, some to their end, and their exit codes must be known afterwards.
func AgentAway(away Away, load Load) Attack {
	kind := "agent-down"
	if away.Stop {
		kind = "agent-stopped"
	}
	return Attack{
		Name: kind, Load: load, Rounds: 1, Replaces: true,
		Fault: func(ctx context.Context, f *Fight) error {
			agent, err := f.busiest(ctx)
			if err == nil {
				wait.For(ctx, acquainted)
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			gone := time.Now()
			if away.Stop {
				err = f.Cluster.Signal(agent, syscall.SIGSTOP)
			} else {
				err = f.Cluster.Kill(agent)
			}
			if err != nil {
				return err
			}
			back := func() error {
				if away.Stop {
					return f.Cluster.Signal(agent, syscall.SIGCONT)
				}
				return f.Cluster.Revive(ctx, agent)
			}
			if err := f.lost(ctx, kind, agent.NodeID, gone, away.For); err != nil {
				_ = back()
				return err
			}
			if err := back(); err != nil {
				return err
			}
			f.Log("node %s is back after %s", agent.NodeID, time.Since(gone).Round(time.Second))
			return f.nodeBack(ctx, agent.NodeID)
		},
	}
}

// acquainted is how long the cluster runs undisturbed before a node is lost. Tasks of a node are replaced only after
// the node has acknowledged the roster, in a heartbeat, once a second.
const acquainted = 10 * time.Second

// replacedWithin limits the time until a lost attempt is replaced. It is far longer than promised.
const replacedWithin = 4 * time.Minute

// lost waits until the replaceable tasks of a node that was cut off at t were replaced. Meanwhile short jobs end on the
// node without a report.
func (f *Fight) lost(ctx context.Context, kind, node string, t time.Time, least time.Duration) error {
	if err := f.Outage(ctx, kind, t); err != nil {
		return err
	}
	jobs, err := f.fleet.On(ctx, node)
	if err != nil {
		return err
	}
	if err := f.fleet.FinishShort(); err != nil {
		return err
	}
	replaced := 0
	for _, j := range jobs {
		if !j.Replaceable {
			continue
		}
		wait, cancel := context.WithTimeout(ctx, replacedWithin)
		err := f.fleet.AwaitRunning(wait, j, 2)
		cancel()
		if err != nil {
			return err
		}
		replaced++
		f.Log("%s runs elsewhere %s after the fault", j, time.Since(t).Round(100*time.Millisecond))
	}
	if replaced == 0 && f.fleet.Replaceable+f.fleet.Gangs > 0 {
		return fmt.Errorf("no replaceable job ran on %s: the attack proves nothing", node)
	}
	wait.For(ctx, least-time.Since(t))
	return ctx.Err()
}

// busiest returns the agent with the most jobs.
func (f *Fight) busiest(ctx context.Context) (procs.Component, error) {
	info, err := f.Cluster.Info()
	if err != nil {
		return procs.Component{}, err
	}
	node, err := f.fleet.Busiest(ctx)
	if err != nil {
		return procs.Component{}, err
	}
	for _, a := range info.Agents {
		if a.NodeID == node || node == "" {
			return a, nil
		}
	}
	return procs.Component{}, fmt.Errorf("node %q has no agent on this machine", node)
}

// nodeBack waits until a node is ready again.
func (f *Fight) nodeBack(ctx context.Context, node string) error {
	for {
		nodes, err := f.REST.Nodes(ctx)
		state := "unknown"
		if err == nil {
			for _, n := range nodes {
				if n.ID == node {
					if state = n.State; state == "READY" {
						return nil
					}
				}
			}
		}
		if wait.For(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("waiting for node %s, which is %s: %w", node, state, ctx.Err())
		}
	}
}
