package fsm

import (
	"fmt"
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// DefaultQueue exists from the start and cannot be deleted.
const DefaultQueue = "default"

// MaxQueueName bounds the name of a queue, in bytes.
const MaxQueueName = 63

const recordQueue = 20

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

// queueFigures is what is counted per queue.
type queueFigures struct {
	counts Counts
	// held is how many of the queued ones are held back.
	held int
	// gpuMilli is what the leases of its jobs hold, in thousandths of a GPU.
	gpuMilli int
}

type namedFigures struct {
	name    string
	figures *queueFigures
}

type queueTables struct {
	rows    table[string, *Queue]
	figures index[namedFigures]
	shares  index[tenantFigures]
}

var queueDomain = domain{
	name: "queues",
	commands: []commandDef{
		defineCommand[PutQueue]("PutQueue"),
		defineCommand[DeleteQueue]("DeleteQueue"),
	},
	records: []recordDef{
		defineRecords(recordQueue, "queue", func(s *state) *table[string, *Queue] { return &s.queues.rows },
			func(s *state, q *Queue) error { s.queues.rows.put(q.Name, q); return nil }),
	},
	open: func(s *state) {
		s.queues.rows = newTable[string, *Queue](recordQueue, func(a, b string) bool { return a < b })
		s.queues.figures = newIndex(func(a, b namedFigures) bool { return a.name < b.name })
		s.queues.shares = newIndex(func(a, b tenantFigures) bool {
			return a.of.tenant < b.of.tenant || a.of.tenant == b.of.tenant && a.of.queue < b.of.queue
		})
		s.queues.rows.put(DefaultQueue, &Queue{Name: DefaultQueue, Weight: 1})
	},
	freeze: func(s, from *state) {
		f := &from.queues
		s.queues = queueTables{rows: f.rows.freeze(), figures: f.figures.freeze(), shares: f.shares.freeze()}
	},
	check: checkQueues,
}

func (PutQueue) commandType() uint16 { return 7 }

func (c PutQueue) apply(tx *tx) any {
	q := c.Queue
	if q.Name == "" || len(q.Name) > MaxQueueName {
		return QueueResult{Refusal: refuse(CodeInvalidArgument, "a queue needs a name of 1 to %d characters", MaxQueueName)}
	}
	if q.Weight == 0 {
		q.Weight = 1
	}
	q.CreatedAt, q.UpdatedAt, q.Revision = tx.now, tx.now, tx.index
	if old, ok := tx.queues.rows.get(q.Name); ok {
		q.CreatedAt = old.CreatedAt
	}
	tx.queues.rows.put(q.Name, &q)
	tx.emit(Event{Topic: TopicQueue, Name: q.Name, Queue: q.Name})
	return QueueResult{Queue: &q}
}

func (DeleteQueue) commandType() uint16 { return 8 }

func (c DeleteQueue) apply(tx *tx) any {
	if _, ok := tx.queues.rows.get(c.Name); !ok {
		return QueueResult{Refusal: refuse(CodeNotFound, "there is no queue %q", c.Name)}
	}
	if c.Name == DefaultQueue {
		return QueueResult{Refusal: refuse(CodeFailedPrecondition, "the queue %q cannot be deleted", DefaultQueue)}
	}
	if slot, ok := tx.work.queues[c.Name]; ok {
		// How many, and whose, is for their tenants to know.
		if unfinished(slot.counts) > 0 {
			return QueueResult{Refusal: refuse(CodeFailedPrecondition,
				"the queue %q has unfinished jobs: they must be canceled, or finish, first", c.Name)}
		}
	}
	tx.queues.rows.delete(c.Name)
	tx.emit(Event{Topic: TopicQueue, Name: c.Name, Queue: c.Name})
	return QueueResult{}
}

func unfinished(c Counts) int {
	n := 0
	for state, k := range c {
		if !IsTerminal(v1.JobState_Value(state)) {
			n += k
		}
	}
	return n
}

// said is what a queue is set to, in words.
func (q *Queue) said() string {
	said := fmt.Sprintf("weight %d", max(q.Weight, 1))
	if q.MaxGPUs != 0 {
		said += fmt.Sprintf(", max_gpus %d", q.MaxGPUs)
	}
	return said
}

// Queue returns a queue by its name.
func (s *state) Queue(name string) (*Queue, bool) { return s.queues.rows.get(name) }

// Queues iterates the queues by name.
func (s *state) Queues() iter.Seq[*Queue] { return s.queues.rows.rows() }

// QueueCounts is how many jobs of a queue there are, by state.
func (v *View) QueueCounts(queue string) Counts { return v.figures(queue).counts }

// QueueGPUs is what the leases of a queue's jobs hold, in thousandths of a GPU.
func (v *View) QueueGPUs(queue string) int { return v.figures(queue).gpuMilli }

// QueueHeld is how many jobs of a queue are queued and held back.
func (v *View) QueueHeld(queue string) int { return v.figures(queue).held }

func (v *View) figures(queue string) queueFigures {
	if f, ok := v.queues.figures.tree.Get(namedFigures{name: queue}); ok {
		return *f.figures
	}
	return queueFigures{}
}

// queueNames lists the queues for a sentence.
func (s *state) queueNames() string {
	names := ""
	for q := range s.Queues() {
		if len(names) > 200 {
			return names + ", ..."
		}
		if names != "" {
			names += ", "
		}
		names += q.Name
	}
	return names
}
