package claims

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const record = 120

// Book has the claims. Their methods read; what changes them is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Book struct {
	rows kernel.Table[ident.Job, *Claim]
	// victims lists who waits for the end of a job; ends when claims end; holds are the jobs that have a hold.
	victims kernel.Index[victim]
	ends    kernel.Index[end]
	holds   kernel.Index[ident.Job]
}

type victim struct{ job, claim ident.Job }

type end struct {
	at  int64
	job ident.Job
}

// NewBook returns an empty one.
func NewBook() Book {
	return Book{
		rows:    kernel.NewTable[ident.Job, *Claim](record, func(a, b ident.Job) bool { return a < b }),
		victims: kernel.NewIndex(func(a, b victim) bool { return a.job < b.job || a.job == b.job && a.claim < b.claim }),
		ends:    kernel.NewIndex(func(a, b end) bool { return a.at < b.at || a.at == b.at && a.job < b.job }),
		holds:   kernel.NewIndex(func(a, b ident.Job) bool { return a < b }),
	}
}

// Record is the kind of row; at finds the tables of a state, put puts a loaded row in.
func Record(at func(*kernel.State) *Book, put func(*kernel.State, *Claim)) kernel.RecordDef {
	return kernel.Rows(record, "claim", func(s *kernel.State) *kernel.Table[ident.Job, *Claim] { return &at(s).rows },
		func(s *kernel.State, c *Claim) error { put(s, c); return nil })
}

// Freeze returns a copy for a view.
func Freeze(t *Book) Book {
	return Book{rows: t.rows.Freeze(), victims: t.victims.Freeze(), ends: t.ends.Freeze(), holds: t.holds.Freeze()}
}

// Put puts a row in, in the place of the one for its job.
func Put(t *Book, c *Claim) {
	if old, ok := t.rows.Get(c.Job); ok {
		underive(t, old)
	}
	t.rows.Put(c.Job, c)
	t.ends.Put(end{c.Until, c.Job})
	if c.IsHold() {
		t.holds.Put(c.Job)
	}
	for _, v := range c.Victims {
		t.victims.Put(victim{v, c.Job})
	}
}

// Drop takes a row out.
func Drop(t *Book, c *Claim) {
	t.rows.Delete(c.Job)
	underive(t, c)
}

func underive(t *Book, c *Claim) {
	t.ends.Delete(end{c.Until, c.Job})
	if c.IsHold() {
		t.holds.Delete(c.Job)
	}
	for _, v := range c.Victims {
		t.victims.Delete(victim{v, c.Job})
	}
}

// ClaimOf returns the claim for a job.
func (t *Book) ClaimOf(job ident.Job) (*Claim, bool) { return t.rows.Get(job) }

// Claims iterates all claims, by the job that they are for.
func (t *Book) Claims() iter.Seq[*Claim] { return t.rows.Rows() }

// ClaimCount is how many preemptions are under way.
func (t *Book) ClaimCount() int { return t.rows.Len() - t.holds.Len() }

// HoldCount is how many jobs have a hold.
func (t *Book) HoldCount() int { return t.holds.Len() }

// Awaiting lists the jobs whose claims wait for a job to leave.
func (t *Book) Awaiting(job ident.Job) []ident.Job {
	var claims []ident.Job
	t.victims.AscendFrom(victim{job: job}, func(v victim) bool {
		if v.job != job {
			return false
		}
		claims = append(claims, v.claim)
		return true
	})
	return claims
}

// Ended returns a claim whose time is over; nil: there is none.
func (t *Book) Ended(now int64) *Claim {
	if e, ok := t.ends.Min(); ok && e.at <= now {
		c, _ := t.rows.Get(e.job)
		return c
	}
	return nil
}

// NextEnd is when the next claim ends; false: there is none.
func (t *Book) NextEnd() (int64, bool) {
	e, ok := t.ends.Min()
	return e.at, ok
}
