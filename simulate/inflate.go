package simulate

import (
	"context"
	"errors"
	"math/rand/v2"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// demanded is the demand of all drawn tasks, as a multiple of the GPUs of the cluster.
const demanded = 1.3

// Inflate measures how well tasks are packed, as the authors of Fragmentation Gradient Descent did (USENIX ATC 2023):
// random copies of the tasks are added until they demand 1.3 times the GPUs of the cluster, and all are shuffled. They
// arrive one by one and never leave. A task that fits nowhere is dropped, but counts as arrived. The allocation is
// measured when the demand of the arrived tasks has reached until times the GPUs of the cluster.
func Inflate(ctx context.Context, nodes []*work.Node, tasks []trace.Job, policy policy.Policy, seed uint64, until float64, progress func(arrived int)) (Measures, error) {
	c := newCluster(Cluster{Nodes: nodes})
	if c.total == 0 {
		return Measures{}, errors.New("the inventory has no GPU")
	}
	m := Measures{Seed: seed, Jain: 1}
	arrived := 0
	for i, t := range inflated(tasks, c.total, rand.New(rand.NewPCG(seed, 0))) {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		if i%256 == 0 {
			progress(i)
		}
		if float64(arrived) >= until*float64(c.total) {
			break
		}
		arrived += t.Shape.GPUMilli()
		m.Jobs++
		row := &work.Job{
			ID: jobID(i), Tenant: "trace", User: t.User, Queue: "default", Priority: 5, Shape: t.Shape, State: v1.JobState_QUEUED,
			CreatedAt: origin + int64(i),
		}
		c.wait(row)
		c.policy, c.now = policy, row.CreatedAt
		result := c.planner.Plan(c, scheduler.Options{Quiet: true})
		if err := c.leave(row); err != nil {
			return m, err
		}
		if result.Placed == 0 {
			m.Dropped++
			continue
		}
		if err := c.hold(row, result.Commands[0].Placements[0].Tasks); err != nil {
			return m, err
		}
	}
	m.GPUAllocationPercent = 100 * float64(c.used) / float64(c.total)
	m.Utilisation = float64(c.used) / float64(c.total)
	return m, nil
}

// inflated returns the tasks of an inflation in the order in which they arrive.
func inflated(tasks []trace.Job, total int, random *rand.Rand) []trace.Job {
	most, demand := int(demanded*float64(total)), 0
	all := append([]trace.Job{}, tasks...)
	for i := range all {
		demand += all[i].Shape.GPUMilli()
	}
	for demand > most && len(all) > 0 {
		i := random.IntN(len(all))
		demand -= all[i].Shape.GPUMilli()
		all[i] = all[len(all)-1]
		all = all[:len(all)-1]
	}
	for len(tasks) > 0 && demand < most {
		t := tasks[random.IntN(len(tasks))]
		if demand+t.Shape.GPUMilli() > most {
			break
		}
		demand += t.Shape.GPUMilli()
		all = append(all, t)
	}
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}
