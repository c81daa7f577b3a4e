package coordinators

import (
	"iter"
	"math"

	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

const recordTerm = 61

// keptTerms is the number of terms that are remembered, the newest ones.
const keptTerms = 64

// harmTime is for how long after the beginning of a term a job that loses a task counts as harmed by the failover.
const harmTime = int64(120e9)

// TermGate opens the history of leaders.
var TermGate = level.NewGate(level.Released+1, "the history of leaders")

// Term is one term of leadership: its leader, and what the change of the leader cost.
type Term struct {
	// Number is Raft's term, and Index that of the entry that noted it.
	Number uint64 `cbor:"1,keyasint,omitempty"`
	Leader string `cbor:"2,keyasint,omitempty"`
	// Previous is the leader of the term before; empty: unknown.
	Previous string `cbor:"3,keyasint,omitempty"`
	Index    uint64 `cbor:"4,keyasint,omitempty"`
	At       int64  `cbor:"5,keyasint,omitempty"`
	// Gap is for how long no write was taken, in nanoseconds, as the new leader measured it.
	Gap int64 `cbor:"6,keyasint,omitempty"`
	// Live is the number of jobs that had GPUs or other places when the term began, and Harmed the number of those that lost a
	// task soon afterwards, for whatever reason: of a good failover it is 0.
	Live   uint32 `cbor:"7,keyasint,omitempty"`
	Harmed uint32 `cbor:"8,keyasint,omitempty"`
}

// AppendFields implements kernel.Hashed.
func (t *Term) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Num(t.Number).Text(t.Leader).Text(t.Previous).Num(t.Index).Int(t.At).Int(t.Gap).Num(uint64(t.Live)).Num(uint64(t.Harmed))
}

// NoteTerm notes that a term has begun. Its leader proposes it.
type NoteTerm struct {
	Term   uint64 `cbor:"1,keyasint,omitempty"`
	Leader string `cbor:"2,keyasint,omitempty"`
	// Gap is for how long no write was taken, in nanoseconds; 0: unknown.
	Gap int64 `cbor:"3,keyasint,omitempty"`
	// Live is the number of jobs that have places.
	Live uint32 `cbor:"4,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (NoteTerm) CommandNumber() uint16 { return 73 }

// AtLevel implements kernel.Leveled.
func (c NoteTerm) AtLevel(at level.Level) (kernel.Command, error) { return c, TermGate.Check(at) }

// TermResult says whether the term was new.
type TermResult struct{ Noted bool }

func noteTerm(tx *kernel.Tx, c *NoteTerm) TermResult {
	t := of(tx.State)
	newest, any := t.newest()
	if c.Term == 0 || any && newest.Number >= c.Term {
		return TermResult{}
	}
	row := &Term{Number: c.Term, Leader: c.Leader, Index: tx.Index(), At: tx.Now(), Gap: max(0, c.Gap), Live: c.Live}
	if any {
		row.Previous = newest.Leader
	}
	t.terms.Put(row.Number, row)
	for t.terms.Len() > keptTerms {
		oldest, _, _ := t.terms.First()
		t.terms.Delete(oldest)
	}
	event.Emit(tx, event.Event{Topic: event.TopicCoordinator, Name: row.Leader})
	return TermResult{Noted: true}
}

// NoteHarm counts a job that lost a task, if the leader changed shortly before, and after the job's attempt was granted: so a job
// counts once.
func NoteHarm(s *kernel.State, now int64, granted uint64) {
	t := of(s)
	if newest, ok := t.newest(); ok && now-newest.At <= harmTime && granted < newest.Index {
		row := *newest
		row.Harmed++
		t.terms.Put(row.Number, &row)
	}
}

func (t *tables) newest() (*Term, bool) {
	for row := range t.terms.RowsDown(math.MaxUint64) {
		return row, true
	}
	return nil, false
}

// check reports terms that do not follow each other.
func check(s *kernel.State, report kernel.Report) {
	t, before := of(s), &Term{}
	if n := t.terms.Len(); n > keptTerms {
		report("%d terms are remembered, and at most %d should be", n, keptTerms)
	}
	for row := range t.terms.Rows() {
		if row.Index <= before.Index || row.Index > s.Index() || row.At < before.At || row.Gap < 0 {
			report("term %d was noted at index %d, and the one before it at %d", row.Number, row.Index, before.Index)
		}
		before = row
	}
}

// Terms iterates the remembered terms, the newest first.
func (v View) Terms() iter.Seq[*Term] { return v.t.terms.RowsDown(math.MaxUint64) }
