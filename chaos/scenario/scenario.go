// Package scenario holds attacks on a running cluster and the promises that must hold under them. Each scenario works
// through REST and signals alone, and fails when a promise is broken or when the attack was too weak to prove anything.
//
// An attack has four parts: jobs that run all through it (Steady), clients that submit short jobs meanwhile, a fault that
// is repeated in rounds, and a result that holds what the cluster says against evidence that the jobs left outside of it.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
)

// Arena is the cluster to be attacked, and what the attack needs beside it.
type Arena struct {
	Cluster *procs.Cluster
	// Network is nil where the members share one.
	Network Network
	// Disk is nil where no coordinator has one of its own.
	Disk *Disk
	// Throttle is nil where processes cannot be slowed down.
	Throttle Throttle
	// Mind is the binary, which is the workload too.
	Mind string
	// Scratch is a folder for evidence, which the jobs can write to.
	Scratch string
	// Log is told what happens; may be nil.
	Log func(format string, args ...any)
}

// Load is what a cluster has to do during an attack.
type Load struct {
	Steady users.Steady
	// Clients submit short jobs, one after the other.
	Clients int
	// Pause of a client between two submits, so that the jobs can run meanwhile.
	Pause time.Duration
	// Followers of logs, from before the attack to the end of the job.
	Followers int
}

// Attack is a fault under load.
type Attack struct {
	Name string
	Load Load
	// Rounds of the fault; Between passes after each.
	Rounds  int
	Between time.Duration
	// Replaces: jobs that may be replaced will be.
	Replaces bool
	// Takes: a round takes a coordinator away from the others for a while, and so needs one that can be spared.
	Takes bool
	// Fault breaks something and mends it.
	Fault func(context.Context, *Fight) error
	// Around, when it is set, begins what is attacked beside the jobs, and returns what judges it after the last round.
	// What it starts ends with its context, and is counted in the Fight's ends.
	Around func(context.Context, *Fight) (judge func(context.Context) error, err error)
}

// Fight is one attack under way.
type Fight struct {
	Arena
	REST    *procs.REST
	Round   int
	result  *result.Result
	writers *users.Writers
	fleet   *users.Fleet
	ends    sync.WaitGroup
}

// writesWithin is how long after a fault writes must be accepted at the latest: far beyond any promise, for slow machines.
const writesWithin = 2 * time.Minute

// Outage notes a fault that happened at t, and measures how long writes wait from then on.
func (f *Fight) Outage(ctx context.Context, kind string, t time.Time) error {
	f.result.Fault(kind)
	outage, err := f.writers.FirstWriteSince(ctx, t, writesWithin)
	if err != nil {
		return err
	}
	f.result.Outages = append(f.result.Outages, outage)
	f.Log("round %d: %s, writes waited %d ms", f.Round, kind, outage.Milliseconds())
	return nil
}

// spare refuses a round that would cost the cluster its quorum. It would prove nothing, and the cluster would not come back
// from it by itself.
func (a Attack) spare(ctx context.Context, arena Arena) error {
	if !a.Takes {
		return nil
	}
	return arena.Cluster.SpareOne(ctx)
}

// Run attacks, waits until all jobs have ended, and judges. An error means that there is no result: the attack could not
// be carried out, or the cluster did not come back from it.
func (a Attack) Run(ctx context.Context, arena Arena) (result.Result, error) {
	if arena.Log == nil {
		arena.Log = func(string, ...any) {}
	}
	if err := a.spare(ctx, arena); err != nil {
		return result.Result{}, err
	}
	rest, err := arena.Cluster.REST()
	if err != nil {
		return result.Result{}, err
	}
	run := a.Name + "-" + strconv.FormatInt(time.Now().UnixMicro(), 36)
	v := result.Result{Scenario: a.Name}
	fight := &Fight{Arena: arena, REST: rest, result: &v, fleet: users.NewFleet(rest, arena.Mind, arena.Scratch, run, a.Load.Steady)}
	if fight.writers, err = users.NewWriters(rest, run, arena.Scratch, a.Load.Pause); err != nil {
		return v, err
	}
	// Whatever happens, no job is left working.
	defer func() { _ = fight.fleet.Finish() }()
	if err := fight.fleet.Start(ctx, a.Load.Followers); err != nil {
		return v, fmt.Errorf("starting the jobs that are to run through the attack: %w", err)
	}
	arena.Log("%d jobs run", len(fight.fleet.All))
	stop := fight.writers.Start(ctx, a.Load.Clients)
	defer stop()
	judge := func(context.Context) error { return nil }
	if a.Around != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer fight.ends.Wait()
		defer cancel()
		if judge, err = a.Around(ctx, fight); err != nil {
			return v, err
		}
	}
	leader, err := arena.Cluster.Leader(ctx)
	if err != nil {
		return v, err
	}
	for fight.Round = 1; fight.Round <= a.Rounds; fight.Round++ {
		if err := a.spare(ctx, arena); err != nil {
			return v, fmt.Errorf("round %d: %w", fight.Round, err) // Nothing of this attack is broken now.
		}
		if err := a.Fault(ctx, fight); err != nil {
			// An attack that is broken off leaves nothing broken.
			return v, errors.Join(fmt.Errorf("round %d: %w", fight.Round, err), arena.Cluster.Mend())
		}
		v.Rounds++
		now, err := arena.Cluster.Leader(ctx)
		if err != nil {
			return v, fmt.Errorf("after round %d: %w", fight.Round, err)
		}
		if now.PID != leader.PID {
			v.Failovers++
		}
		leader = now
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(a.Between):
		}
	}
	stop()
	if err := judge(ctx); err != nil {
		return v, err
	}
	if a.Load.Clients > 0 && fight.writers.Acknowledged() < a.Rounds*a.Load.Clients {
		return v, fmt.Errorf("only %d jobs were submitted in %d rounds: the attack proves nothing", fight.writers.Acknowledged(), a.Rounds)
	}
	arena.Log("waiting for %d jobs to end", fight.writers.Acknowledged()+len(fight.fleet.All))
	if err := fight.fleet.Finish(); err != nil {
		return v, err
	}
	if err := fight.writers.Verify(ctx, &v); err != nil {
		return v, err
	}
	if err := fight.fleet.Check(ctx, &v, a.Replaces); err != nil {
		return v, err
	}
	fight.fleet.Leaks(ctx, &v)
	v.Judged = true
	return v, nil
}
