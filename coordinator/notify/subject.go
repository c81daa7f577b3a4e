package notify

import (
	"fmt"
	"iter"
	"time"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// key names a decision or a job. The decisions of a tenant come before its jobs.
type key struct {
	job      ident.Job
	decision ident.Decision
}

func (k key) less(other key) bool {
	return k.job < other.job || k.job == other.job && k.decision < other.decision
}

// next is the key that follows.
func (k key) next() key {
	if k.job != 0 {
		return key{job: k.job + 1}
	}
	return key{decision: k.decision + 1}
}

// String is the id.
func (k key) String() string {
	if k.job != 0 {
		return k.job.String()
	}
	return k.decision.String()
}

// subject is a decision or a job with a notice, the oldest that its URL was not told. It is a value: most of those that are looked at
// wait for their next try.
type subject struct {
	key
	tenant, url string
	// shown is the error that its row has.
	shown  string
	number uint32
	// kind is the number of the event among those of decisions, or of jobs.
	kind uint8
	at   int64
	// asked is the row of a decision, row that of a job.
	asked *executions.Decision
	row   *work.Job
}

// types are the types of events of the ScaiGrid bus, as far as they are published; the last two are Mind's own.
var types = map[executions.NoticeEvent]string{
	executions.NoticeResolved: "scaicore.checkpoint_resolved",
	executions.NoticeExpired:  "scaicore.checkpoint_expired",
	executions.NoticeCanceled: "scaicore.checkpoint_cancelled",
}

func ofDecision(d *executions.Decision, n executions.Notice) subject {
	return subject{
		key: key{decision: d.ID}, tenant: d.Tenant, url: d.NotifyURL, shown: d.NotifyError,
		number: n.Number, kind: uint8(n.Event), at: n.At, asked: d,
	}
}

func ofJob(j *work.Job, n notices.Notice) subject {
	return subject{
		key: key{job: j.ID}, tenant: j.Tenant, url: j.Notices.Wanted.URL, shown: j.Notices.Err,
		number: n.Number, kind: uint8(n.Event), at: n.At, row: j,
	}
}

// id is the webhook-id of the notice, the same for each try. The time keeps clusters apart that send to the same receiver.
func (s *subject) id() string { return fmt.Sprintf("%s_%d_%x", s.key, s.number, s.at) }

// event is the name of the event, as receivers see it.
func (s *subject) event() string {
	if s.row != nil {
		return "job." + notices.Event(s.kind).String()
	}
	return executions.NoticeEvent(s.kind).String()
}

// typed is the event as the envelope of ScaiGrid has it, with its module. The bus has no published events of jobs: these are Mind's own.
func (s *subject) typed() (kind, module string) {
	if s.row != nil {
		return "scaimind.job_" + notices.Event(s.kind).String(), "scaimind"
	}
	if kind = types[executions.NoticeEvent(s.kind)]; kind == "" {
		kind = "scaicore.checkpoint_pending"
	}
	return kind, "scaicore"
}

func (s *subject) message(payload map[string]any) message {
	kind, module := s.typed()
	return message{
		Event: s.event(), EventType: kind, EventID: s.id(), Source: module, TenantID: s.tenant,
		Timestamp: time.Unix(0, s.at).UTC().Format(time.RFC3339Nano), Payload: payload,
	}
}

// note is the outcome of a try.
func (s *subject) note(over bool, why string) executionverbs.Note {
	return executionverbs.Note{Decision: s.decision, Job: s.job, Number: s.number, Over: over, Err: why}
}

func keyOf(n executionverbs.Note) key { return key{n.Job, n.Decision} }

// untold iterates what a tenant's URLs were not told, from one on.
func untold(v *fsm.View, tenant string, from key) iter.Seq[subject] {
	return func(yield func(subject) bool) {
		if from.job == 0 {
			for d := range v.UntoldOf(tenant, from.decision) {
				if !yield(ofDecision(d, d.Untold[0])) {
					return
				}
			}
		}
		for id := range v.UntoldJobsOf(tenant, from.job) {
			j, _ := v.Job(id)
			if !yield(ofJob(j, j.Notices.Untold[0])) {
				return
			}
		}
	}
}

// tenantsFrom iterates the tenants that have untold notices, in the order of their names, from one on.
func tenantsFrom(v *fsm.View, from string) iter.Seq[string] {
	return func(yield func(string) bool) {
		nextJob, stop := iter.Pull(v.UntoldJobTenants(from))
		defer stop()
		job, more := nextJob()
		for name := range v.UntoldTenants(from) {
			for ; more && job < name; job, more = nextJob() {
				if !yield(job) {
					return
				}
			}
			if more && job == name {
				job, more = nextJob()
			}
			if !yield(name) {
				return
			}
		}
		for ; more; job, more = nextJob() {
			if !yield(job) {
				return
			}
		}
	}
}

// stillOwes says whether a decision or job has untold notices.
func stillOwes(v *fsm.View, k key) bool {
	if k.job != 0 {
		j, ok := v.Job(k.job)
		return ok && j.Notices.Owes()
	}
	d, ok := v.Decision(k.decision)
	return ok && len(d.Untold) > 0
}
