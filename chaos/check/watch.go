package check

import (
	"sync"

	"github.com/mindcoordinator/mind/fsm/event"
)

// Stamp is the place of an event in the log.
type Stamp struct {
	Index uint64
	Pos   int
}

func (s Stamp) before(o Stamp) bool { return s.Index < o.Index || s.Index == o.Index && s.Pos < o.Pos }

// behind is a place after all events of an index.
func behind(index uint64) Stamp { return Stamp{index, 1<<31 - 1} }

// report is an event as the first replica that applied it told it.
type report struct {
	at     Stamp
	topic  event.Topic
	tenant string
}

// note keeps an event for the watchers. Replicas' lock is held.
func (r *Replicas) note(e *event.Event) {
	r.told = append(r.told, report{Stamp{e.Index, e.Pos}, e.Topic, e.Tenant})
}

// Newest is the place of the last event that any replica told.
func (r *Replicas) Newest() Stamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) == 0 {
		return Stamp{}
	}
	return r.told[len(r.told)-1].at
}

// Watch is what one watcher of events was told, of one tenant.
type Watch struct {
	Tenant   string
	findings *Findings

	mu   sync.Mutex
	seen map[Stamp]bool
	last Stamp
	// skipped are the stretches that the watcher was told to be gone: (from, to].
	skipped [][2]Stamp
}

// NewWatch returns one that has seen nothing.
func NewWatch(f *Findings, tenant string) *Watch {
	return &Watch{Tenant: tenant, findings: f, seen: map[Stamp]bool{}}
}

// Begin tells that the watcher begins after an index: at first, or because what came before is not remembered any more.
func (w *Watch) Begin(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skipped = append(w.skipped, [2]Stamp{w.last, behind(index)})
	w.last = behind(index)
}

// Saw tells of an event that reached the watcher. It is a violation when it comes again, or out of order (I10).
func (w *Watch) Saw(at Stamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.before(at) {
		w.findings.Add("I10: a watcher of %s is told event %d.%d after %d.%d", w.Tenant, at.Index, at.Pos, w.last.Index, w.last.Pos)
	}
	w.seen[at], w.last = true, at
}

// Reached tells that the watcher has come so far, although nothing there was for it.
func (w *Watch) Reached(at Stamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.before(at) {
		w.last = at
	}
}

// Last is how far the watcher has come.
func (w *Watch) Last() Stamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Verify holds what the watcher was told against what happened: all that its tenant may see, and nothing else (I10, I11).
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
