package check

import (
	"sync"

	"github.com/mindcoordinator/mind/fsm/event"
)

// Stamp is the position of an event in the log.
type Stamp struct {
	Index uint64
	Pos   int
}

func (s Stamp) before(o Stamp) bool { return s.Index < o.Index || s.Index == o.Index && s.Pos < o.Pos }

// behind returns the position after all events of an index.
func behind(index uint64) Stamp { return Stamp{index, 1<<31 - 1} }

// report is an event from the first replica that applied it.
type report struct {
	at     Stamp
	topic  event.Topic
	tenant string
}

// note records an event for the watchers. The caller holds the lock of Replicas.
func (r *Replicas) note(e *event.Event) {
	r.told = append(r.told, report{Stamp{e.Index, e.Pos}, e.Topic, e.Tenant})
}

// Newest returns the position of the last event of any replica.
func (r *Replicas) Newest() Stamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) == 0 {
		return Stamp{}
	}
	return r.told[len(r.told)-1].at
}

// Watch records the events that one watcher of a tenant got.
type Watch struct {
	Tenant   string
	findings *Findings

	mu   sync.Mutex
	seen map[Stamp]bool
	last Stamp
	// skipped are the ranges that the watcher was told are no longer available: (from, to].
	skipped [][2]Stamp
}

// NewWatch returns a Watch without events.
func NewWatch(f *Findings, tenant string) *Watch {
	return &Watch{Tenant: tenant, findings: f, seen: map[Stamp]bool{}}
}

// Begin records that the watcher begins after an index: at its start, or because earlier events are no longer
// available.
func (w *Watch) Begin(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skipped = append(w.skipped, [2]Stamp{w.last, behind(index)})
	w.last = behind(index)
}

// Saw records an event that the watcher got. It is a violation if the event comes twice, or out of order (I10).
func (w *Watch) Saw(at Stamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.before(at) {
		w.findings.Add("I10: a watcher of %s is told event %d.%d after %d.%d", w.Tenant, at.Index, at.Pos, w.last.Index, w.last.Pos)
	}
	w.seen[at], w.last = true, at
}

// Reached records that the watcher has reached a position without an event for it.
func (w *Watch) Reached(at Stamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.before(at) {
		w.last = at
	}
}

// Last returns the position that the watcher has reached.
func (w *Watch) Last() Stamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Verify checks that the watcher got all events that its tenant may see, and no others (I10, I11). It returns their
// number.
func (w *Watch) Verify(r *Replicas) (events int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range r.told {
		switch seen := w.seen[e.at]; {
		case w.last.before(e.at) || w.gone(e.at):
		case e.tenant != "" && e.tenant != w.Tenant:
			if seen {
				w.findings.Add("I11: a watcher of %s is told event %d.%d (%s) of %s", w.Tenant, e.at.Index, e.at.Pos, e.topic, e.tenant)
			}
		case !seen:
			w.findings.Add("I10: a watcher of %s is not told event %d.%d (%s)", w.Tenant, e.at.Index, e.at.Pos, e.topic)
		}
	}
	return len(w.seen)
}

func (w *Watch) gone(at Stamp) bool {
	for _, s := range w.skipped {
		if s[0].before(at) && !s[1].before(at) {
			return true
		}
	}
	return false
}
