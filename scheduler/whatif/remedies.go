package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// Remedy is a change with which the job would start now.
type Remedy struct {
	// Suppose is the change, as Parse reads it.
	Suppose []string
	// Operator: only an operator can make it.
	Operator bool
	Answer   *Answer
}

// Bounds of the changes that are tried.
const (
	maxTypes   = 4
	maxQueues  = 8
	maxCancels = 12
)

// Remedies returns single changes with which a job that is QUEUED would start now: first those that its owner can make,
// and of each kind the smallest. A job that would start without a change needs none.
func Remedies(v *fsm.View, j *work.Job, now time.Time) []Remedy {
	r := &remedies{view: v, job: j, now: now, prices: Prices(v)}
	if j.HeldBack() {
		if j.Held&^(work.HoldNotBefore|work.HoldDependency) == 0 {
			r.try(false, "held=false")
		}
		return r.found
	}
	if a := r.answer(); a == nil || a.Starts() {
		return nil
	}
	r.sizes()
	r.kinds()
	r.queues()
	r.shorter()
	r.priority()
	r.cancels()
	r.limits()
	r.arrangements()
	return r.found
}

type remedies struct {
	view   *fsm.View
	job    *work.Job
	now    time.Time
	prices func() *worth.Prices
	found  []Remedy
}

// answer returns what would happen to the job with a change; nil: there can be no such job, or its tenant may not know.
func (r *remedies) answer(suppose ...string) *Answer {
	c, err := Parse(suppose)
	if err != nil {
		return nil
	}
	if _, tells := Tells(r.view, r.job, &c); tells {
		return nil
	}
	w, err := with(r.view, r.job, &c, r.now.UnixNano())
	if err != nil {
		return nil
	}
	a := &Answer{Job: w.job, View: w}
	a.plan(w, scheduler.Options{Prices: r.prices, Quiet: true})
	return a
}

// try keeps a change if the job would start now with it.
func (r *remedies) try(operator bool, suppose ...string) bool {
	a := r.answer(suppose...)
	if a == nil || !a.Starts() {
		return false
	}
	r.found = append(r.found, Remedy{Suppose: suppose, Operator: operator, Answer: a})
	return true
}

// sizes tries fewer GPUs, and another number of nodes.
func (r *remedies) sizes() {
	s := &r.job.Shape
	nodes, each := max(1, int(s.Nodes)), int(s.GPUs)
	for n := each / 2; n > 0; n /= 2 {
		if r.try(false, "gpus="+strconv.Itoa(n*nodes)) {
			break
		}
	}
	for n := nodes / 2; n > 0; n /= 2 {
		if r.try(false, "nodes="+strconv.Itoa(n), "gpus="+strconv.Itoa(n*each)) {
			break
		}
	}
	// The same number of GPUs, divided differently: only a program that runs on several nodes can use that.
	for _, n := range []int{nodes * 2, nodes * 4, nodes / 2} {
		if nodes > 1 && n > 0 && each > 0 && nodes*each%n == 0 && r.try(false, "nodes="+strconv.Itoa(n)) {
			break
		}
	}
	for n := s.CPUs / 2; n > 0; n /= 2 {
		if r.try(false, fmt.Sprintf("cpus=%d", n)) {
			break
		}
	}
	for n := s.MemMB / 2; n >= 1024; n /= 2 {
		if r.try(false, fmt.Sprintf("memory_mb=%d", n)) {
			break
		}
	}
}

// kinds tries other GPUs and other nodes.
func (r *remedies) kinds() {
	s := &r.job.Shape
	if s.GPUType != "" {
		any := false
		for _, t := range r.types() {
			any = r.try(false, "gpu_type="+t) || any
		}
		if !any {
			r.try(false, "gpu_type=")
		}
	}
	if s.Selector != "" {
		r.try(false, "selector=")
	}
	if s.GPUMemMB != 0 {
		r.try(false, "gpu_memory_mb=0")
	}
	if s.Topology == work.TopologyNVLink {
		r.try(false, "topology=any")
	}
}

// types returns the types of GPU that the nodes have and the job does not ask for.
func (r *remedies) types() []string {
	found := map[string]bool{}
	for n := range r.view.Nodes() {
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Type != "" && n.State == v1.NodeState_READY && !work.GPUMatches(g, &work.Shape{GPUType: r.job.Shape.GPUType}) {
				found[g.Type] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(found))
	return all[:min(len(all), maxTypes)]
}

// queues tries other queues, if the job's queue or a queue above it has a limit.
func (r *remedies) queues() {
	limited := false
	for q := range r.view.Lineage(r.job.Queue) {
		limited = limited || q.MaxGPUs != 0
	}
	if !limited {
		return
	}
	tried := 0
	for q := range r.view.Queues() {
		if q.Name == r.job.Queue {
			continue
		}
		if tried++; tried > maxQueues || r.try(false, "queue="+q.Name) {
			return
		}
	}
}

// shorter tries shorter time limits: a job that ends soon may use places that are reserved for later.
func (r *remedies) shorter() {
	for _, d := range []time.Duration{24 * time.Hour, 8 * time.Hour, 2 * time.Hour, 30 * time.Minute} {
		if limit := time.Duration(r.job.MaxRuntime); (limit == 0 || d < limit) && r.try(false, "max_runtime="+d.String()) {
			return
		}
	}
}

// priority tries higher priorities, the lowest first.
func (r *remedies) priority() {
	if r.job.Priority >= 10 || !r.starts("priority=10") {
		return
	}
	for p := r.job.Priority + 1; p <= 10; p++ {
		if r.try(false, fmt.Sprintf("priority=%d", p)) {
			return
		}
	}
}

func (r *remedies) starts(suppose ...string) bool {
	a := r.answer(suppose...)
	return a != nil && a.Starts()
}

// cancels tries to cancel one running job of the same user or tenant, and then several.
func (r *remedies) cancels() {
	var own []*work.Job
	for j := range r.view.ActiveJobs() {
		if j.Tenant == r.job.Tenant && j.Stop == v1.StopReason_UNSPECIFIED {
			own = append(own, j)
		}
	}
	// The first candidates are jobs of the same user, then those of low priority, then those that have run least.
	slices.SortStableFunc(own, func(a, b *work.Job) int {
		mine := func(j *work.Job) int {
			if j.User == r.job.User {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(mine(a), mine(b)), cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.StartedAt, a.StartedAt), cmp.Compare(b.ID, a.ID))
	})
	own = own[:min(len(own), maxCancels)]
	for _, j := range own {
		if r.try(false, canceled(j.ID)) {
			return
		}
	}
	var all []string
	for _, j := range own {
		if all = append(all, canceled(j.ID)); len(all) > 1 && r.starts(all...) {
			break
		}
	}
	if len(all) < 2 || !r.starts(all...) {
		return
	}
	for i := len(all) - 1; i >= 0 && len(all) > 1; i-- {
		if fewer := slices.Delete(slices.Clone(all), i, i+1); r.starts(fewer...) {
			all = fewer
		}
	}
	r.try(false, all...)
}

func canceled(id ident.Job) string { return "cancel=" + id.String() }

// limits tries to raise the tenant's limits and to remove the queue's. A number for the queue would reveal the GPUs
// that other tenants hold.
func (r *remedies) limits() {
	if q, ok := r.view.Quota(r.job.Tenant); ok {
		u := r.view.Usage(r.job.Tenant)
		var suppose []string
		if need := u.GPUMilli + r.job.Shape.GPUMilli(); q.MaxGPUs != nil && need > 1000*int(*q.MaxGPUs) {
			suppose = append(suppose, fmt.Sprintf("quota.max_gpus=%d", (need+999)/1000))
		}
		if q.MaxRunning != nil && u.Running >= int(*q.MaxRunning) {
			suppose = append(suppose, fmt.Sprintf("quota.max_running_jobs=%d", u.Running+1))
		}
		if q.BarsHours(r.view.Budget(r.job.Tenant).SpentBy(r.now.UnixNano()), r.now.UnixNano(), r.job.Shape) != "" {
			suppose = append(suppose, fmt.Sprintf("quota.max_gpu_hours=%d", r.view.Budget(r.job.Tenant).SpentBy(r.now.UnixNano())/budgets.Hour+1))
		}
		raised := len(suppose) > 0 && r.try(true, suppose...)
		for _, limit := range q.MaxByType {
			if raised {
				break
			}
			raised = r.try(true, append(slices.Clone(suppose), "quota.max_gpus_by_type="+r.raised(q, limit.Type).String())...)
		}
	}
	if q, ok := r.view.Queue(r.job.Queue); ok {
		if q.MaxGPUs == 0 || !r.try(true, "queue.max_gpus="+none) {
			_ = len(q.MaxByType) > 0 && (r.try(true, "queue.max_gpus_by_type="+none) ||
				q.MaxGPUs != 0 && r.try(true, "queue.max_gpus="+none, "queue.max_gpus_by_type="+none))
		}
	}
}

// raised returns the limits by type of a quota, with that of one type raised by as much as the job needs.
func (r *remedies) raised(q *work.Quota, name string) typed.Limits {
	limits := slices.Clone(q.MaxByType)
	for i := range limits {
		if limits[i].Type == name {
			limits[i].GPUs = int32((r.view.HeldOfType(r.job.Tenant, name) + r.job.Shape.GPUMilli() + 999) / 1000)
		}
	}
	return limits
}

// arrangements tries to call off what is arranged for nodes, and to preempt jobs that are protected.
func (r *remedies) arrangements() {
	maintenance, others := false, false
	for w := range r.view.Windows() {
		maintenance = maintenance || w.Kind == windows.Maintenance
		others = others || w.Kind == windows.Reservation && w.Tenant != r.job.Tenant
	}
	if maintenance {
		r.try(true, "maintenance="+none)
	}
	if others {
		r.try(true, "reservations="+none)
	}
	if r.view.Policy().Preemption.ProtectFromPriority > 0 {
		r.try(true, "protection="+none)
	}
}

// String returns the change as users write it: "gpus=4 nodes=2".
func (r *Remedy) String() string { return strings.Join(r.Suppose, " ") }
