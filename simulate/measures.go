package simulate

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// Measures holds the results of one run. The wait of a job is its time from submission to end minus its duration: the
// time in the queue, and the time that it lost by preemption.
type Measures struct {
	Policy string `json:"policy"`
	// InForce says that it is the current policy of the cluster.
	InForce bool   `json:"in_force,omitempty"`
	Seed    uint64 `json:"seed"`
	// GPUAllocationPercent is the part of all GPUs that jobs hold: in an inflation at its end, otherwise on average
	// until the last job has ended.
	GPUAllocationPercent    float64 `json:"gpu_allocation_percent"`
	WaitMeanSeconds         float64 `json:"wait_mean_seconds"`
	WaitMedianSeconds       float64 `json:"wait_median_seconds"`
	WaitP99Seconds          float64 `json:"wait_p99_seconds"`
	WaitMaxSeconds          float64 `json:"wait_max_seconds"`
	CompletionMeanSeconds   float64 `json:"completion_mean_seconds"`
	CompletionMedianSeconds float64 `json:"completion_median_seconds"`
	CompletionP99Seconds    float64 `json:"completion_p99_seconds"`
	// Utilisation is the part of all GPU time until the last job ended that was spent on work that was not lost.
	Utilisation float64 `json:"utilisation"`
	// Jain is Jain's index of fairness over the users' mean slowdowns: 1 means that all are equal. The slowdown of a
	// job is the time to its completion divided by its duration. Durations below 10 seconds count as 10 seconds;
	// otherwise jobs that end at once would dominate the index.
	Jain              float64 `json:"jain"`
	WorstUser         string  `json:"worst_user,omitempty"`
	WorstUserSlowdown float64 `json:"worst_user_slowdown"`
	// JainTenants is the same index over the tenants, if jobs have tenants.
	JainTenants         float64 `json:"jain_tenants,omitempty"`
	WorstTenant         string  `json:"worst_tenant,omitempty"`
	WorstTenantSlowdown float64 `json:"worst_tenant_slowdown,omitempty"`
	Preemptions         int     `json:"preemptions"`
	// PreemptionCostGPUSeconds is the GPU time that was lost by preemption: the work since the last checkpoint, and
	// restarts.
	PreemptionCostGPUSeconds float64 `json:"preemption_cost_gpu_seconds"`
	Jobs                     int     `json:"jobs"`
	// Dropped counts tasks of an inflation that fit nowhere, and jobs that a limit kept from running until the end.
	Dropped int `json:"dropped"`
}

// seen has what a run measures while it goes on.
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

// brief is the shortest duration in the calculation of a slowdown.
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

// fairness returns Jain's index over means, and the user with the largest mean.
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

// quantile returns the value below which a part of the sorted values lies.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// Policies lists the names of the policies, in the order in which they are shown.
func Policies() []string {
	return []string{"fifo", "easy", "conservative", "shortest", "attained", "preemptive", "default"}
}

// Policy returns the policy of a name.
func Policy(name string) (policy.Policy, bool) { return PolicyFrom(policy.DefaultPolicy(), name) }

// PolicyFrom returns p with the settings that the name stands for.
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
