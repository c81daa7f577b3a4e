// Package explain finds the obstacles that keep a job from running, and changes that would let it run.
//
// Guarantees. A caller sees its own tenant, the nodes and the limits of queues: no id of another tenant's job, and no
// figure that reveals the resources of another tenant. Changes that would let a job start come from the planner, and
// are no guesses. A replica searches for one job at a time, and pauses for a tenant after a search that took long.
package explain

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/census"
	"github.com/mindcoordinator/mind/scheduler/foresee"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// maxNamed bounds the jobs and nodes that one fact names.
const maxNamed = 8

// View is the part of the state that an explanation reads, with or without a change.
type View = foresee.View

// paused says why a job is paused: a user has done it, or it waits at a gate.
func paused(v *fsm.View, j *work.Job) *v1.JobObstacle {
	o := &v1.JobObstacle{Kind: v1.ObstacleKind_PAUSED, Message: "a user has paused it"}
	if d := v.ClosedGate(j.ID); d != nil {
		ids := make([]string, len(d.Options))
		for i := range d.Options {
			ids[i] = d.Options[i].ID
		}
		o.Message = fmt.Sprintf("%s asks whether it goes on: `mind decision resolve %s %s`", d.ID, d.ID, strings.Join(ids, "|"))
	}
	return o
}

// Obstacles returns the obstacles that keep a job from running, the most telling first. why is the planner's reason.
func Obstacles(v *fsm.View, j *work.Job, why reason.Reason) []*v1.JobObstacle {
	if j.State == v1.JobState_PAUSED {
		return []*v1.JobObstacle{paused(v, j)}
	}
	if j.State != v1.JobState_QUEUED {
		return nil
	}
	if j.HeldBack() {
		return held(v, j)
	}
	c, kept := v.ClaimOf(j.ID)
	if kept && !c.IsHold() {
		return []*v1.JobObstacle{{
			Kind: v1.ObstacleKind_PREEMPTION, Message: words.Of(reason.New(reason.PreemptsOthers, len(c.Victims), c.GPUs())),
			Count: proto.Int32(int32(len(c.Victims))),
		}}
	}
	out := waiting(v, v, j, why)
	if kept {
		held := reason.New(reason.PlacesHeld, c.GPUs(), c.Missing(j.Shape.Nodes), time.Unix(0, c.Until).UTC().Format(time.RFC3339))
		out = append(out, &v1.JobObstacle{Kind: v1.ObstacleKind_OTHER, Message: words.Of(held), Until: call.Time(c.Until)})
	}
	return out
}

// waiting returns the obstacles of a job that waits for the scheduler. own has the rows of jobs, and v is the view of
// the plan.
func waiting(own *fsm.View, v View, j *work.Job, why reason.Reason) []*v1.JobObstacle {
	out := limits(v, j)
	said, lacks := len(out) > 0 || why == "", why.Code() == reason.NodesKept
	if o := nodes(v, j); o != nil {
		if !said {
			o.Message = words.Of(why)
		}
		out, said, lacks = append(out, o), true, true
	}
	if o := mayStillRun(j); o != nil {
		out, said = append(out, o), true
	}
	if kept := arranged(v, j); lacks && len(kept) > 0 {
		out, said = append(out, kept...), true
	}
	if o := protected(v, j); o != nil {
		out = append(out, o)
	}
	if !said {
		out = append(out, &v1.JobObstacle{Kind: v1.ObstacleKind_OTHER, Message: words.Of(why)})
	}
	if o := order(own, j); o != nil {
		out = append(out, o)
	}
	return out
}

// held returns the obstacles that keep a job from the scheduler.
func held(v *fsm.View, j *work.Job) (out []*v1.JobObstacle) {
	until := func(at int64, what string) {
		out = append(out, &v1.JobObstacle{
			Kind: v1.ObstacleKind_HOLD, Until: call.Time(at),
			Message: fmt.Sprintf("held until %s (%s)", time.Unix(0, at).UTC().Format(time.RFC3339), what),
		})
	}
	rest := j.Held
	if rest&work.HoldNotBefore != 0 {
		until(j.NotBefore, "not_before")
	}
	if rest&work.HoldDependency != 0 {
		out = append(out, dependencies(v, j))
	}
	if rest&work.HoldBackoff != 0 {
		until(j.Streak.After, "a pause before its next restart")
	}
	if rest &^= work.HoldNotBefore | work.HoldDependency | work.HoldBackoff; rest != 0 {
		out = append(out, &v1.JobObstacle{Kind: v1.ObstacleKind_OTHER, Message: words.Of(work.HoldReason(j))})
	}
	return out
}

func dependencies(v *fsm.View, j *work.Job) *v1.JobObstacle {
	o := &v1.JobObstacle{Kind: v1.ObstacleKind_DEPENDENCY}
	n := 0
	for _, d := range j.Dependencies {
		on, _ := v.Find(d.Job)
		if d.Judge(on) == work.Met {
			continue
		}
		if n++; n <= maxNamed {
			o.JobIds = append(o.JobIds, d.Job.String())
		}
	}
	o.Count = proto.Int32(int32(n))
	o.Message = fmt.Sprintf("waits for the end of %s: %s", call.Plural(n, "job"), listed(o.JobIds, n))
	return o
}

// limits returns the limits of the tenant and of queues that leave no room for the job.
func limits(v View, j *work.Job) (out []*v1.JobObstacle) {
	milli := func(n int) *float64 { return proto.Float64(float64(n) / 1000) }
	s := j.Shape
	if q, ok := v.Quota(j.Tenant); ok {
		u := v.Usage(j.Tenant)
		if why := q.Bars(u, s); why != "" {
			o := &v1.JobObstacle{Kind: v1.ObstacleKind_QUOTA, Tenant: j.Tenant, Message: words.Of(why)}
			switch why.Code() {
			case reason.QuotaOfRunning:
				o.Resource = "running_jobs"
				o.Limit, o.Used, o.Needed = proto.Float64(float64(*q.MaxRunning)), proto.Float64(float64(u.Running)), proto.Float64(1)
			case reason.QuotaOfGPUs, reason.QuotaBelowNeed:
				o.Resource = "gpus"
				o.Limit, o.Used, o.Needed = proto.Float64(float64(*q.MaxGPUs)), milli(u.GPUMilli), milli(s.GPUMilli())
			}
			out = append(out, o)
		}
		spent := v.Budget(j.Tenant).SpentBy(v.Now())
		if why := q.BarsHours(spent, v.Now(), s); why != "" {
			_, next := budgets.MonthOf(v.Now() / 1e6)
			out = append(out, &v1.JobObstacle{
				Kind: v1.ObstacleKind_QUOTA, Tenant: j.Tenant, Message: words.Of(why), Resource: "gpu_hours", Limit: proto.Float64(float64(*q.MaxGPUHours)),
				Used: proto.Float64(float64(spent) / float64(budgets.Hour)), Until: call.Time(next * 1e6),
			})
		}
	}
	for q := range v.Lineage(j.Queue) {
		if why := q.Bars(v.QueueTreeGPUs(q.Name), s); why != "" {
			out = append(out, &v1.JobObstacle{
				Kind: v1.ObstacleKind_QUEUE_LIMIT, Queue: q.Name, Message: words.Of(why),
				Resource: "gpus", Limit: proto.Float64(float64(q.MaxGPUs)), Needed: milli(s.GPUMilli()),
			})
		}
	}
	key := v.ClassOf(j)
	of := quota.New(v).Of(&key)
	for _, b := range of.BarredTypes(s) {
		o := &v1.JobObstacle{
			Kind: v1.ObstacleKind_QUEUE_LIMIT, Queue: b.Queue, Message: words.Of(b.Why),
			Resource: "gpus", Name: b.Type, Limit: proto.Float64(float64(b.Limit)), Needed: milli(s.GPUMilli()),
		}
		if b.Queue == "" {
			o.Kind, o.Tenant, o.Used = v1.ObstacleKind_QUOTA, j.Tenant, milli(b.Held)
		}
		out = append(out, o)
	}
	return out
}

// arranged returns the maintenances and the reservations of others that keep nodes from the job which could hold a task
// of it.
func arranged(v View, j *work.Job) (out []*v1.JobObstacle) {
	reserved, until := 0, int64(0)
	for w := range v.Windows() {
		if w.Admits(j, v.Now()) {
			continue
		}
		nodes := 0
		for _, id := range w.Nodes {
			if n, ok := v.Node(id); ok && n.CouldHold(j.Shape) {
				nodes++
			}
		}
		switch {
		case nodes == 0:
		case w.Kind == windows.Reservation:
			reserved, until = reserved+nodes, max(until, w.Until)
		default:
			out = append(out, &v1.JobObstacle{
				Kind: v1.ObstacleKind_MAINTENANCE, Name: w.Name, Until: call.Time(w.Until), Count: proto.Int32(int32(nodes)),
				Message: fmt.Sprintf("maintenance %s keeps %s until %s", w.Name, call.Plural(nodes, "node"), at(w.Until)),
			})
		}
	}
	if reserved > 0 {
		out = append(out, &v1.JobObstacle{
			Kind: v1.ObstacleKind_RESERVATION, Until: call.Time(until), Count: proto.Int32(int32(reserved)),
			Message: fmt.Sprintf("reservations of other tenants keep %s, the last until %s", call.Plural(reserved, "node"), at(until)),
		})
	}
	return out
}

// protected returns that jobs of lower priority would be preempted for the job, and are protected; nil: none are.
func protected(v View, j *work.Job) *v1.JobObstacle {
	until, victims, ok := preempt.Protected(v, j, v.ClassOf(j), v.Now())
	if !ok {
		return nil
	}
	return &v1.JobObstacle{
		Kind: v1.ObstacleKind_PROTECTION, Until: call.Time(until), Count: proto.Int32(int32(victims)),
		Message: fmt.Sprintf("%s of lower priority would be preempted for it: protected until %s", call.Plural(victims, "job"), at(until)),
	}
}

func at(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }

// nodes counts the nodes by the check that the job fails there; nil: enough nodes have room.
func nodes(v View, j *work.Job) *v1.JobObstacle {
	want, fits, all := max(1, int(j.Shape.Nodes)), 0, 0
	o := &v1.JobObstacle{Kind: v1.ObstacleKind_NODES, Needed: proto.Float64(float64(want)), Resource: "nodes"}
	for _, c := range census.Of(v, j) {
		all += c.Nodes
		if c.Check == v1.NodeCheck_FITS {
			fits = c.Nodes
		}
		o.Nodes = append(o.Nodes, &v1.NodeCount{Check: c.Check, Nodes: int32(c.Nodes), Examples: c.Examples})
	}
	if fits >= want {
		return nil
	}
	o.Message = fmt.Sprintf("needs %s with room for a task of it now, and there are %d of %d", call.Plural(want, "node"), fits, all)
	return o
}

func mayStillRun(j *work.Job) *v1.JobObstacle {
	if len(j.Awaits) == 0 {
		return nil
	}
	o := &v1.JobObstacle{Kind: v1.ObstacleKind_MAY_STILL_RUN}
	for i := range j.Awaits {
		if n := j.Awaits[i].Node; len(o.NodeIds) < maxNamed {
			o.NodeIds = append(o.NodeIds, n)
		}
	}
	o.Message = "an earlier attempt may still run on " + listed(o.NodeIds, len(j.Awaits)) + ", so it may only go to nodes that would be asked first"
	return o
}

// order names the jobs of the same tenant and class that come first. The position counts those of all tenants.
func order(v *fsm.View, j *work.Job) *v1.JobObstacle {
	if !j.Waiting() {
		return nil
	}
	o := &v1.JobObstacle{Kind: v1.ObstacleKind_ORDER, Queue: j.Queue}
	ahead := 0
	for lane := range v.Lanes(v.ClassOf(j)) {
		if lane.Tenant != j.Tenant {
			continue
		}
		for other := range v.LaneJobs(lane) {
			if other.Priority < j.Priority || other.Priority == j.Priority && !other.ID.Older(j.ID) {
				break
			}
			if ahead += other.Places(); len(o.JobIds) < maxNamed {
				o.JobIds = append(o.JobIds, other.ID.String())
			}
		}
	}
	if ahead == 0 {
		return nil
	}
	o.Count = proto.Int32(int32(min(ahead, math.MaxInt32)))
	o.Message = fmt.Sprintf("%s of yours with the same needs before it in queue %q, by priority and age", call.Plural(ahead, "job"), j.Queue)
	return o
}

// listed joins names, and adds how many of all are not named.
func listed(names []string, all int) string {
	text := strings.Join(names, ", ")
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
