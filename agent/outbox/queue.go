// Package outbox keeps a node's reports until the coordinators have them.
//
// Contract: Queue holds the reports in order and knows which are in flight. It is pure, without a clock or a lock, so
// that simulations can drive it. Outbox is a Queue that many goroutines may use; it signals when reports wait to be
// sent.
//
// Guarantees: reports are sent in the order in which they were added, again in each session, until they are acknowledged.
// Of a task's launches, phases and progress only the latest unsent report is kept; all other reports are kept. An Outbox is
// bounded.
//
// Not guaranteed: that it outlives the agent. Everything in it is also on disk: starts and ends in the shims' records,
// checkpoints and phases in the journals of the tasks, progress in the files of the programs.
package outbox

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// MaxBatch limits the reports in one message, and maxBatchBytes their size, which a job decides about.
const (
	MaxBatch      = 512
	maxBatchBytes = 1 << 20
)

// maxCheckpoints limits the unsent checkpoints of one task: the coordinators keep no more for a job anyway.
const maxCheckpoints = 1000

// Report is one entry.
type Report struct {
	Body *v1.Report
	// Latest names a series of which only the latest report counts: an unsent report of the same series and task is
	// dropped.
	Latest string
	// MayWait is set if a report with more information follows soon.
	MayWait bool
	// Acked, if set, is called when the coordinators' state contains the report, or has refused it for good.
	Acked func()
}

// About makes a report about a task; a zero time means the present.
func About(task taskid.ID, body *v1.Report, at time.Time) *Report {
	body.Task = task.Ref()
	if !at.IsZero() {
		body.Time = timestamppb.New(at)
	}
	return &Report{Body: body}
}

// Launch makes a report about the progress of a launch. The next report contains all that it contains.
func Launch(task taskid.ID, body *v1.Report, at time.Time) *Report {
	r := About(task, body, at)
	r.Latest, r.MayWait = "launch", true
	return r
}

// Queue holds reports in the order in which they were added.
type Queue struct {
	items []*Report // in the order of their numbers
	sent  int       // items[:sent] were sent in the current session
	seq   uint64
}

// NewQueue returns an empty queue that numbers reports from first on.
func NewQueue(first uint64) *Queue { return &Queue{seq: first} }

// Add appends reports. It returns true when one of them should be sent at once.
func (q *Queue) Add(now time.Time, reports ...*Report) (urgent bool) {
	for _, r := range reports {
		if r.Latest != "" {
			q.dropUnsent(func(old *Report) bool {
				return old.Latest == r.Latest && sameTask(old.Body.GetTask(), r.Body.GetTask())
			})
		}
		if r.Body.GetCheckpoint() != nil {
			q.boundCheckpoints(r.Body.GetTask())
		}
		q.seq++
		r.Body.Seq = q.seq
		if r.Body.Time == nil {
			r.Body.Time = timestamppb.New(now)
		}
		q.items = append(q.items, r)
		urgent = urgent || !r.MayWait
	}
	return urgent
}

func (q *Queue) dropUnsent(drop func(*Report) bool) {
	unsent := slices.DeleteFunc(q.items[q.sent:], drop)
	q.items = q.items[:q.sent+len(unsent)]
}

// boundCheckpoints makes room for one more checkpoint of a task: it drops the oldest one.
func (q *Queue) boundCheckpoints(task *v1.TaskRef) {
	n, oldest := 0, -1
	for i, r := range q.items[q.sent:] {
		if r.Body.GetCheckpoint() != nil && sameTask(r.Body.GetTask(), task) {
			if n++; oldest < 0 {
				oldest = q.sent + i
			}
		}
	}
	if n >= maxCheckpoints {
		q.items = slices.Delete(q.items, oldest, oldest+1)
	}
}

func sameTask(a, b *v1.TaskRef) bool {
	return a.GetJobId() == b.GetJobId() && a.GetAttempt() == b.GetAttempt() && a.GetRank() == b.GetRank() && a.GetToken() == b.GetToken()
}

// Drop removes the unsent reports of a task, except its end.
func (q *Queue) Drop(task *v1.TaskRef) {
	q.dropUnsent(func(r *Report) bool { return r.Body.GetEnded() == nil && sameTask(r.Body.GetTask(), task) })
}

// Take returns the next reports to send, and marks them as sent.
func (q *Queue) Take() []*v1.Report {
	n := min(len(q.items)-q.sent, MaxBatch)
	batch := make([]*v1.Report, 0, n)
	bytes := 0
	for _, r := range q.items[q.sent : q.sent+n] {
		if bytes += proto.Size(r.Body); bytes > maxBatchBytes && len(batch) > 0 {
			break
		}
		batch = append(batch, r.Body)
	}
	q.sent += len(batch)
	return batch
}

// Rewind marks all reports as unsent: a new session has begun.
func (q *Queue) Rewind() { q.sent = 0 }

// Ack removes the reports up to a number, if they were sent in this session, and returns them.
func (q *Queue) Ack(seq uint64) (done []*Report) {
	n := 0
	for n < q.sent && q.items[n].Body.GetSeq() <= seq {
		n++
	}
	done = slices.Clone(q.items[:n])
	clear(q.items[:n])
	q.items = q.items[n:]
	q.sent -= n
	return done
}

// Len returns the number of unacknowledged reports.
func (q *Queue) Len() int { return len(q.items) }
