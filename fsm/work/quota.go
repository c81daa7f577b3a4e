package work

import (
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// Counts is how many jobs there are, by state.
type Counts [16]int

// Of is the number of jobs in a state.
func (c Counts) Of(s v1.JobState_Value) int { return c[s&15] }

// Total is the number of all jobs.
func (c Counts) Total() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

func Unfinished(c Counts) int {
	n := 0
	for state, k := range c {
		if !status.Terminal(v1.JobState_Value(state)) {
			n += k
		}
	}
	return n
}

// Words is what a queue is set to, in words.
func (q *Queue) Words() string {
	said := fmt.Sprintf("weight %d", max(q.Weight, 1))
	if q.MaxGPUs != 0 {
		said += fmt.Sprintf(", max_gpus %d", q.MaxGPUs)
	}
	return said
}

// Usage is what a tenant has, as far as quotas go.
type Usage struct {
	// GPUMilli is what its leases hold, in thousandths of a GPU.
	GPUMilli int
	// Running is its jobs with leases, Unfinished all that are not over.
	Running, Unfinished int
}

// Grant counts a job of a shape that is given its leases.
func (u *Usage) Grant(s Shape) {
	u.GPUMilli += s.GPUMilli()
	u.Running++
}

// Bars says, for its tenant, why a quota keeps one more job of a shape from running beside what the tenant has; empty: it
// does not. The scheduler plans by it, and the state holds every plan to it again.
func (q *Quota) Bars(u Usage, s Shape) string {
	if q.MaxRunning != nil && u.Running >= int(*q.MaxRunning) {
		return fmt.Sprintf("tenant quota: %d of %d jobs running", u.Running, *q.MaxRunning)
	}
	need := s.GPUMilli()
	if q.MaxGPUs == nil || need == 0 || u.GPUMilli+need <= 1000*int(*q.MaxGPUs) {
		return ""
	}
	if need > 1000*int(*q.MaxGPUs) {
		return fmt.Sprintf("tenant quota: it needs %s GPUs, and %d is all that the tenant may have, so it cannot run until the quota is raised", FormatGPUs(need), *q.MaxGPUs)
	}
	why := fmt.Sprintf("tenant quota: %s of %d GPUs in use", FormatGPUs(u.GPUMilli), *q.MaxGPUs)
	if u.GPUMilli < 1000*int(*q.MaxGPUs) {
		why += fmt.Sprintf(", and it needs %s", FormatGPUs(need))
	}
	return why
}

// Bars says why the limit of a queue keeps one more job of a shape from running, when its jobs hold so much; empty: it
// does not. How much they hold is not told: they may be of other tenants.
func (q *Queue) Bars(gpuMilli int, s Shape) string {
	need := s.GPUMilli()
	if q.MaxGPUs == 0 || need == 0 || gpuMilli+need <= 1000*int(q.MaxGPUs) {
		return ""
	}
	if need > 1000*int(q.MaxGPUs) {
		return fmt.Sprintf("queue limit: it needs %s GPUs, and all jobs of queue %q together may have %d, so it cannot run in this queue", FormatGPUs(need), q.Name, q.MaxGPUs)
	}
	return fmt.Sprintf("queue limit: the jobs of queue %q may have %d GPUs together, and the %s that it needs are not left", q.Name, q.MaxGPUs, FormatGPUs(need))
}

func FormatGPUs(milli int) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// Quota is how much a tenant may have. A nil limit is none; 0 allows nothing.
type Quota struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	// MaxGPUs is held against the GPUs of all leases together, a fraction as what it is.
	MaxGPUs *int32 `cbor:"2,keyasint,omitempty"`
	// MaxRunning is held against the jobs with leases.
	MaxRunning *int32 `cbor:"3,keyasint,omitempty"`
	// MaxJobs is held against the unfinished jobs.
	MaxJobs   *int32 `cbor:"4,keyasint,omitempty"`
	UpdatedBy string `cbor:"5,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"6,keyasint,omitempty"`
	// Revision is the index of the last change: what was granted before it was not measured by it.
	Revision uint64 `cbor:"7,keyasint,omitempty"`
}

// Words is the limits in words.
func (q *Quota) Words() string {
	var said []string
	for _, limit := range []struct {
		of   string
		most *int32
	}{{"max_gpus", q.MaxGPUs}, {"max_running_jobs", q.MaxRunning}, {"max_jobs", q.MaxJobs}} {
		if limit.most != nil {
			said = append(said, fmt.Sprintf("%s %d", limit.of, *limit.most))
		}
	}
	if len(said) == 0 {
		return "no limits"
	}
	return strings.Join(said, ", ")
}
