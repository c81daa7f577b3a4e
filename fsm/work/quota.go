package work

import (
	"strconv"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/typed"
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

// Said is the message of the audit log for a queue that was put.
func (q *Queue) Said() reason.Reason {
	if len(q.MaxByType) > 0 || q.Guaranteed != 0 {
		said := []string{"weight " + strconv.Itoa(int(max(q.Weight, 1)))}
		if q.MaxGPUs != 0 {
			said = append(said, "max_gpus "+strconv.Itoa(int(q.MaxGPUs)))
		}
		if q.Parent != "" {
			said = append(said, "parent "+q.Parent)
		}
		if len(q.MaxByType) > 0 {
			said = append(said, "max_gpus_by_type "+q.MaxByType.String())
		}
		if q.Guaranteed != 0 {
			said = append(said, "guaranteed_gpus "+strconv.Itoa(int(q.Guaranteed)))
		}
		return reason.New(reason.LimitsSetTo, strings.Join(said, ", "))
	}
	if q.Parent != "" {
		return reason.New(reason.QueueBelowSetTo, max(q.Weight, 1), q.MaxGPUs, q.Parent)
	}
	return reason.New(reason.QueueSetTo, max(q.Weight, 1), q.MaxGPUs)
}

// Usage is the use of the cluster by a tenant that quotas limit.
type Usage struct {
	// GPUMilli is the sum of its leases, in thousandths of a GPU.
	GPUMilli int
	// Running is its jobs with leases, Unfinished all that are not over.
	Running, Unfinished int
	// Submissions are its jobs and arrays that are not over, SpecBytes the length of their specs together.
	Submissions, SpecBytes int
}

// Grant counts a job of a shape that is given its leases.
func (u *Usage) Grant(s Shape) {
	u.GPUMilli += s.GPUMilli()
	u.Running++
}

// Bars says, for its tenant, why a quota keeps one more job of a shape from running beside what the tenant has; empty: it
// does not. The scheduler plans by it, and the state holds every plan to it again.
func (q *Quota) Bars(u Usage, s Shape) reason.Reason {
	if q.MaxRunning != nil && u.Running >= int(*q.MaxRunning) {
		return reason.New(reason.QuotaOfRunning, u.Running, *q.MaxRunning)
	}
	need := s.GPUMilli()
	switch {
	case q.MaxGPUs == nil || need == 0 || u.GPUMilli+need <= 1000*int(*q.MaxGPUs):
		return ""
	case need > 1000*int(*q.MaxGPUs):
		return reason.New(reason.QuotaBelowNeed, need, *q.MaxGPUs)
	}
	return reason.New(reason.QuotaOfGPUs, u.GPUMilli, *q.MaxGPUs, need)
}

// Bars says why the limit of a queue keeps one more job of a shape from running, when its jobs hold so much; empty: it
// does not. How much they hold is not told: they may be of other tenants.
func (q *Queue) Bars(gpuMilli int, s Shape) reason.Reason {
	need := s.GPUMilli()
	switch {
	case q.MaxGPUs == 0 || need == 0 || gpuMilli+need <= 1000*int(q.MaxGPUs):
		return ""
	case need > 1000*int(q.MaxGPUs):
		return reason.New(reason.QueueBelowNeed, need, q.Name, q.MaxGPUs)
	}
	return reason.New(reason.QueueOfGPUs, q.Name, q.MaxGPUs, need)
}

// FormatGPUs writes thousandths of a GPU.
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
	// MaxByType bounds the GPUs of each type.
	MaxByType typed.Limits `cbor:"8,keyasint,omitempty"`
	// MaxGPUHours is held against what its jobs had in the month: once it is used up, none with GPUs is granted its leases.
	MaxGPUHours *int32 `cbor:"9,keyasint,omitempty"`
	// MaxSubmissions and MaxSpecMB are held against the unfinished submissions and their specs, in MiB. nil: the default;
	// bounds.None: no bound (package bounds).
	MaxSubmissions *int32 `cbor:"10,keyasint,omitempty"`
	MaxSpecMB      *int32 `cbor:"11,keyasint,omitempty"`
}

// Limits says whether it may keep jobs waiting, as one that sets nothing but the bounds of submissions does not.
func (q *Quota) Limits() bool {
	if q == nil {
		return false
	}
	bounds := q.MaxSubmissions != nil || q.MaxSpecMB != nil
	return !bounds || q.MaxGPUs != nil || q.MaxRunning != nil || q.MaxJobs != nil || q.MaxGPUHours != nil || len(q.MaxByType) > 0
}

// BarsHours says, for its tenant, why one more job of a shape may not start at a time after so much was used in the month;
// empty: it may.
func (q *Quota) BarsHours(spent uint64, now int64, s Shape) reason.Reason {
	if q.MaxGPUHours == nil || s.GPUMilli() == 0 || spent < uint64(*q.MaxGPUHours)*budgets.Hour {
		return ""
	}
	_, next := budgets.MonthOf(now / 1e6)
	return reason.New(reason.QuotaOfHours, int64(spent/budgets.Hour), *q.MaxGPUHours, time.UnixMilli(next).UTC().Format(time.DateOnly))
}

// BarsType says, for its tenant, why so many thousandths of GPUs of a type are too many beside what it holds of them.
func (q *Quota) BarsType(name string, held, need int) reason.Reason {
	most, ok := q.MaxByType.Of(name)
	switch {
	case !ok || need == 0 || held+need <= 1000*int(most):
		return ""
	case need > 1000*int(most):
		return reason.New(reason.QuotaTypeBelowNeed, need, name, most)
	}
	return reason.New(reason.QuotaOfType, held, most, name, need)
}

// BarsType says the same of the limit of a queue. How much its jobs hold is not told.
func (q *Queue) BarsType(name string, held, need int) reason.Reason {
	most, ok := q.MaxByType.Of(name)
	if !ok || need == 0 || held+need <= 1000*int(most) {
		return ""
	}
	return reason.New(reason.QueueOfType, q.Name, most, name, need)
}

// Said is the message of the audit log for limits that were put.
func (q *Quota) Said() reason.Reason {
	limit := func(most *int32) int32 {
		if most == nil {
			return -1
		}
		return *most
	}
	if len(q.MaxByType) > 0 || q.MaxGPUHours != nil || q.MaxSubmissions != nil || q.MaxSpecMB != nil {
		var said []string
		for _, one := range []struct {
			name string
			most *int32
		}{
			{"max_gpus", q.MaxGPUs},
			{"max_running_jobs", q.MaxRunning},
			{"max_jobs", q.MaxJobs},
			{"max_gpu_hours", q.MaxGPUHours},
			{"max_submissions", q.MaxSubmissions},
			{"max_spec_mb", q.MaxSpecMB},
		} {
			switch {
			case one.most == nil:
			case *one.most < 0:
				said = append(said, one.name+" unlimited")
			default:
				said = append(said, one.name+" "+strconv.Itoa(int(*one.most)))
			}
		}
		if len(q.MaxByType) > 0 {
			said = append(said, "max_gpus_by_type "+q.MaxByType.String())
		}
		return reason.New(reason.LimitsSetTo, strings.Join(said, ", "))
	}
	return reason.New(reason.QuotaSetTo, limit(q.MaxGPUs), limit(q.MaxRunning), limit(q.MaxJobs))
}
