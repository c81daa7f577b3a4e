// Package scenario has attacks on a running cluster, and checks the promises that must be kept under them. Each
// scenario uses only REST and signals, and fails if a promise is broken or if the attack was too weak to prove
// anything.
//
// An attack has four parts: jobs that run throughout (Steady), clients that submit short jobs meanwhile, a fault that
// is repeated in rounds, and a result, for which the state of the cluster is compared with evidence that the jobs left
// outside of it.
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

// Arena is the cluster to attack, with the other things that the attack needs.
type Arena struct {
	Cluster *procs.Cluster
	// Network can cut links; nil: the members share one network.
	Network Network
	// Disk is the small disk of a coordinator; nil: none has one.
	Disk *Disk
	// Throttle can slow down processes; nil: that is not possible.
	Throttle Throttle
	// Mind is the binary, which is also the workload.
	Mind string
	// Scratch is a folder for evidence to which the jobs can write.
	Scratch string
	// Log logs the course of the attack; it may be nil.
	Log func(format string, args ...any)
}

// Load is the load of a cluster during an attack.
type Load struct {
	Steady users.Steady
	// Clients is the number of clients that submit short jobs, one after the other.
	Clients int
	// Pause is the pause of a client between two submits, so that the jobs can run meanwhile.
	Pause time.Duration
	// Followers is the number of followers of logs, which follow from before the attack to the end of the job.
	Followers int
}

// Attack is a fault under load.
type Attack struct {
	Name string
	Load Load
	// Rounds is how often the fault is made; Between is the pause after each round.
	Rounds  int
	Between time.Duration
	// Replaces: the attack causes replaceable jobs to be replaced.
	Replaces bool
	// Takes: a round takes a coordinator away for a while, so the others must have a quorum without it.
	Takes bool
	// Fault makes the fault of a round and heals it.
	Fault func(context.Context, *Fight) error
	// Around, if set, starts further targets of the attack beside the jobs, and returns a function that checks them
	// after the last round. Goroutines that it starts end with its context, and are counted in the Fight's ends.
	Around func(context.Context, *Fight) (judge func(context.Context) error, err error)
}

// Fight is an attack in progress.
type Fight struct {
	Arena
	REST    *procs.REST
	Round   int
	result  *result.Result
	writers *users.Writers
	fleet   *users.Fleet
	ends    sync.WaitGroup
}

// writesWithin limits the time from a fault until writes are accepted. It is far longer than promised, for slow
// machines.
const writesWithin = 2 * time.Minute

// Outage records a fault that happened at t, and measures how long writes wait from then on.
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

// spare returns an error if a round would cost the cluster its quorum. Such a round would prove nothing, and the
// cluster would not recover by itself.
func (a Attack) spare(ctx context.Context, arena Arena) error {
	if !a.Takes {
		return nil
	}
	return arena.Cluster.SpareOne(ctx)
}

// Run attacks, waits until all jobs have ended, and checks the evidence. An error means that there is no result: the
// attack could not be carried out, or the cluster did not recover.
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
	// In any case, no job keeps working.
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
			return v, fmt.Errorf("round %d: %w", fight.Round, err) // no fault of this attack is active
		}
		if err := a.Fault(ctx, fight); err != nil {
			// An interrupted attack heals its faults.
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
