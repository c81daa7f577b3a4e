package simulate

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// Measures are what one run came to. Waiting is all time between submission and end in which the job made no progress that
// it kept: in the queue, and what preemption cost it.
type Measures struct {
	Policy string `json:"policy"`
	// InForce: it is the policy that the cluster has now.
	InForce bool   `json:"in_force,omitempty"`
	Seed    uint64 `json:"seed"`
	// GPUAllocationPercent is what jobs hold of all GPUs: when the last task has arrived in an inflation, on average until
	// the last job has ended otherwise.
	GPUAllocationPercent    float64 `json:"gpu_allocation_percent"`
	WaitMeanSeconds         float64 `json:"wait_mean_seconds"`
	WaitMedianSeconds       float64 `json:"wait_median_seconds"`
	WaitP99Seconds          float64 `json:"wait_p99_seconds"`
	WaitMaxSeconds          float64 `json:"wait_max_seconds"`
	CompletionMeanSeconds   float64 `json:"completion_mean_seconds"`
	CompletionMedianSeconds float64 `json:"completion_median_seconds"`
	CompletionP99Seconds    float64 `json:"completion_p99_seconds"`
	// Utilisation is the part of all GPU time, until the last job ended, in which work was done that was kept.
	Utilisation float64 `json:"utilisation"`
	// Jain is Jain's index of fairness over the users' mean slowdowns: 1 is equal. A slowdown is completion divided by
	// duration, where a duration of less than 10 seconds counts as 10: else jobs that end at once would decide alone.
	Jain              float64 `json:"jain"`
	WorstUser         string  `json:"worst_user,omitempty"`
	WorstUserSlowdown float64 `json:"worst_user_slowdown"`
	// JainTenants is the same index over the tenants, where jobs have one.
	JainTenants         float64 `json:"jain_tenants,omitempty"`
	WorstTenant         string  `json:"worst_tenant,omitempty"`
	WorstTenantSlowdown float64 `json:"worst_tenant_slowdown,omitempty"`
	Preemptions         int     `json:"preemptions"`
	// PreemptionCostGPUSeconds is the GPU time that preemption lost: work since checkpoints, and restarts.
	PreemptionCostGPUSeconds float64 `json:"preemption_cost_gpu_seconds"`
	Jobs                     int     `json:"jobs"`
	// Dropped are tasks of an inflation that fit nowhere, and jobs that no limit let run.
	Dropped int `json:"dropped"`
}

// seen is what a run counts while it goes on.
type seen struct {
	held, lost  float64 // thousandths of GPUs times nanoseconds
	preemptions int
}

func (s *seen) pass(took int64, gpuMilli int) { s.held += float64(took) * float64(gpuMilli) }

func (s *seen) preempted(lost int64, gpuMilli int) {
	s.preemptions++
	s.lost += float64(lost) * float64(gpuMilli)
}

const second = 1e9

// brief is the least duration that a slowdown is measured by.
const brief = 10 * second

func (r *run) measures() Measures {
	m := Measures{Jobs: len(r.jobs), Preemptions: r.seen.preemptions, PreemptionCostGPUSeconds: r.seen.lost / 1000 / second}
	waits, completions := make([]float64, 0, len(r.jobs)), make([]float64, 0, len(r.jobs))
	users, tenants := map[string]*mean{}, map[string]*mean{}
	useful := 0.0
	for _, j := range r.jobs {
		if j.ended == 0 {
			m.Dropped++
			continue
		}
		took := float64(j.ended - j.came)
		waits = append(waits, (took-float64(j.takes))/second)
		completions = append(completions, took/second)
		useful += float64(j.takes) * float64(j.row.Shape.GPUMilli())
		slowdown := max(1, took/max(float64(j.takes), brief))
		if !r.cluster.fair {
			count(users, j.row.User, slowdown)
			continue
		}
		count(users, j.row.Tenant+"/"+j.row.User, slowdown)
		count(tenants, j.row.Tenant, slowdown)
	}
	m.WaitMeanSeconds, m.CompletionMeanSeconds = average(waits), average(completions)
	slices.Sort(waits)
	slices.Sort(completions)
	m.WaitMedianSeconds, m.WaitP99Seconds, m.WaitMaxSeconds = quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 1)
	m.CompletionMedianSeconds, m.CompletionP99Seconds = quantile(completions, 0.5), quantile(completions, 0.99)
	if all := float64(r.cluster.now-r.origin) * float64(r.cluster.total); all > 0 {
		m.Utilisation = useful / all
		m.GPUAllocationPercent = 100 * r.seen.held / all
	}
	m.Jain, m.WorstUser, m.WorstUserSlowdown = fairness(users)
	if len(tenants) > 0 {
		m.JainTenants, m.WorstTenant, m.WorstTenantSlowdown = fairness(tenants)
	}
	return m
}

type mean struct {
	sum float64
	n   int
}

func count(of map[string]*mean, who string, x float64) {
	m := of[who]
	if m == nil {
		m = &mean{}
		of[who] = m
	}
	m.sum += x
	m.n++
}

// fairness is Jain's index over means, and the user whose mean is the largest.
func fairness(of map[string]*mean) (jain float64, worst string, most float64) {
	users := make([]string, 0, len(of))
	for user := range of {
		users = append(users, user)
	}
	slices.Sort(users)
	sum, squares := 0.0, 0.0
	for _, user := range users {
		x := of[user].sum / float64(of[user].n)
		sum += x
		squares += x * x
		if x > most {
			worst, most = user, x
		}
	}
	if squares == 0 {
		return 1, worst, most
	}
	return sum * sum / (float64(len(users)) * squares), worst, most
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// quantile is the value below which a part of the sorted values is.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// Policies are the policies by name, in the order in which they are shown.
func Policies() []string {
	return []string{"fifo", "easy", "conservative", "shortest", "attained", "preemptive", "default"}
}

// Policy is the policy of a name.
func Policy(name string) (policy.Policy, bool) { return PolicyFrom(policy.DefaultPolicy(), name) }

// PolicyFrom is the policy of a name, where all that the name does not say is as in another one.
func PolicyFrom(p policy.Policy, name string) (policy.Policy, bool) {
	switch name {
	case "default":
		p = policy.DefaultPolicy()
	case "fifo":
		p.Order, p.AgingStep, p.Preemption.Enabled, p.Backfill.Reservations = policy.OrderFIFO, 0, false, 0
	case "easy":
		p.Order, p.AgingStep, p.Preemption.Enabled, p.Backfill = policy.OrderFIFO, 0, false, policy.Backfill{Reservations: 1}
	case "conservative":
		p.Order, p.AgingStep, p.Preemption.Enabled, p.Backfill = policy.OrderFIFO, 0, false, policy.Backfill{Reservations: 64}
	case "shortest":
		p.Order, p.Preemption.Enabled = policy.OrderShortest, false
	case "preemptive":
		p.Order, p.Preemption.Enabled, p.Preemption.Ratio = policy.OrderShortest, true, 8
	case "attained":
		p.Order, p.Preemption.Enabled = policy.OrderAttained, true
	default:
		return p, false
	}
	return p, true
}
