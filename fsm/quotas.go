package fsm

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	recordQuota = 100

	// maxQuotaText bounds the texts of a quota, in bytes.
	maxQuotaText = 256
	// MaxQuota bounds each limit.
	MaxQuota = math.MaxInt32
)

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

// PutQuota sets all limits of a tenant. It takes nothing away that the tenant has.
type PutQuota struct {
	Tenant     string `cbor:"1,keyasint,omitempty"`
	MaxGPUs    *int32 `cbor:"2,keyasint,omitempty"`
	MaxRunning *int32 `cbor:"3,keyasint,omitempty"`
	MaxJobs    *int32 `cbor:"4,keyasint,omitempty"`
	By         string `cbor:"5,keyasint,omitempty"`
	Actor      *Actor `cbor:"6,keyasint,omitempty"`
}

// DeleteQuota takes all limits of a tenant away.
type DeleteQuota struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	Actor  *Actor `cbor:"2,keyasint,omitempty"`
}

// QuotaResult is the quota as it is after the command (nil when it was deleted), or why nothing was done.
type QuotaResult struct {
	Quota   *Quota
	Refusal *Refusal
}

type quotaTables struct {
	rows table[string, *Quota]
}

var quotaDomain = domain{
	name: "quotas",
	commands: []commandDef{
		defineCommand[PutQuota]("PutQuota"),
		defineCommand[DeleteQuota]("DeleteQuota"),
	},
	records: []recordDef{
		defineRecords(recordQuota, "quota", func(s *state) *table[string, *Quota] { return &s.quotas.rows },
			func(s *state, q *Quota) error { s.setQuota(q.Tenant, q); return nil }),
	},
	open: func(s *state) {
		s.quotas.rows = newTable[string, *Quota](recordQuota, func(a, b string) bool { return a < b })
	},
	freeze: func(s, from *state) { s.quotas = quotaTables{rows: from.quotas.rows.freeze()} },
	check:  checkQuotas,
}

func (q *Quota) appendFields(f fields) fields {
	f = f.text(q.Tenant).optional(q.MaxGPUs).optional(q.MaxRunning).optional(q.MaxJobs)
	return f.text(q.UpdatedBy).int(q.UpdatedAt).num(q.Revision)
}

func (PutQuota) commandType() uint16 { return 21 }

func (c PutQuota) apply(tx *tx) any {
	if c.Tenant == "" || len(c.Tenant) > maxQuotaText || len(c.By) > maxQuotaText {
		return QuotaResult{Refusal: refuse(CodeInvalidArgument, "a quota is for a tenant, named by 1 to %d bytes", maxQuotaText)}
	}
	for _, limit := range []*int32{c.MaxGPUs, c.MaxRunning, c.MaxJobs} {
		if limit != nil && *limit < 0 {
			return QuotaResult{Refusal: refuse(CodeInvalidArgument, "a limit is 0 or more; leave it out for no limit")}
		}
	}
	q := &Quota{
		Tenant: c.Tenant, MaxGPUs: c.MaxGPUs, MaxRunning: c.MaxRunning, MaxJobs: c.MaxJobs,
		UpdatedBy: c.By, UpdatedAt: tx.now, Revision: tx.index,
	}
	tx.setQuota(c.Tenant, q)
	tx.emit(Event{Topic: TopicQuota, Tenant: c.Tenant, Name: c.Tenant})
	return QuotaResult{Quota: q}
}

func (DeleteQuota) commandType() uint16 { return 22 }

func (c DeleteQuota) apply(tx *tx) any {
	if !tx.limited(c.Tenant) {
		return QuotaResult{Refusal: refuse(CodeNotFound, "tenant %q has no quota", c.Tenant)}
	}
	tx.setQuota(c.Tenant, nil)
	tx.emit(Event{Topic: TopicQuota, Tenant: c.Tenant, Name: c.Tenant})
	return QuotaResult{}
}

// setQuota puts a quota in, or takes it away. The waiting jobs of a tenant are in classes of their own while it has one,
// so that the scheduler can pass over all of them at once, and tell their tenant alone why: they change places here.
func (s *state) setQuota(tenant string, q *Quota) {
	var moved []*Job
	if s.limited(tenant) != (q != nil) {
		moved = s.waitingOf(tenant)
	}
	for _, j := range moved {
		s.unlist(j)
	}
	if q != nil {
		s.quotas.rows.put(tenant, q)
	} else {
		s.quotas.rows.delete(tenant)
	}
	for _, j := range moved {
		s.list(j)
	}
}

// waitingOf lists the jobs of a tenant that the scheduler may place.
func (s *state) waitingOf(tenant string) []*Job {
	var groups []CountedGroup
	for g := range s.JobGroups(tenant) {
		if g.State == v1.JobState_QUEUED && !g.Held {
			groups = append(groups, g)
		}
	}
	return slices.Collect(s.JobsOfGroups(groups, false, 0))
}

// limited says whether a tenant has a quota.
func (s *state) limited(tenant string) bool {
	if s.quotas.rows.len() == 0 {
		return false
	}
	_, ok := s.quotas.rows.get(tenant)
	return ok
}

// Quota returns the quota of a tenant; false: it has none.
func (s *state) Quota(tenant string) (*Quota, bool) { return s.quotas.rows.get(tenant) }

// Quotas iterates the quotas by tenant.
func (s *state) Quotas() iter.Seq[*Quota] { return s.quotas.rows.rows() }

// said is the limits in words.
func (q *Quota) said() string {
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
