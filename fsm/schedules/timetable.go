package schedules

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

const record = 129

// Timetable is the part of the state that has the schedules. Its exported methods read; what changes it is functions, so
// that a view offers none of it.
type Timetable struct {
	rows kernel.Table[Key, *Schedule]
	// due has those that are not paused, by when they are due next.
	due kernel.Index[dueAt]
}

// View reads the schedules of a frozen state.
type View struct{ *Timetable }

// ViewOf returns the schedules of a view.
func ViewOf(v *kernel.View) View { return View{Of(v.State())} }

// Of returns the timetable of a state.
func Of(s *kernel.State) *Timetable { return kernel.PartOf[*Timetable](s) }

type dueAt struct {
	at int64
	Key
}

func open(*kernel.State) kernel.Part {
	return &Timetable{
		rows: kernel.NewTable[Key, *Schedule](record, Key.Less),
		due:  kernel.NewIndex(func(a, b dueAt) bool { return a.at < b.at || a.at == b.at && a.Less(b.Key) }),
	}
}

func records() []kernel.RecordDef {
	return []kernel.RecordDef{kernel.Rows(record, "schedule", func(s *kernel.State) *kernel.Table[Key, *Schedule] { return &Of(s).rows },
		func(s *kernel.State, row *Schedule) error {
			row.Tenant = s.Intern(row.Tenant)
			Add(Of(s), row)
			return nil
		})}
}

// Freeze implements kernel.Part.
func (t *Timetable) Freeze(*kernel.State) kernel.Part {
	return &Timetable{rows: t.rows.Freeze(), due: t.due.Freeze()}
}

// Add puts a row in, in the place of the one of its name.
func Add(t *Timetable, s *Schedule) {
	if old, ok := t.rows.Get(s.Key()); ok {
		t.underive(old)
	}
	t.rows.Put(s.Key(), s)
	if !s.Paused {
		t.due.Put(dueAt{s.Next, s.Key()})
	}
}

// Remove takes a row out.
func Remove(t *Timetable, s *Schedule) {
	t.underive(s)
	t.rows.Delete(s.Key())
}

func (t *Timetable) underive(s *Schedule) {
	if !s.Paused {
		t.due.Delete(dueAt{s.Next, s.Key()})
	}
}

// Schedule returns a schedule by its name.
func (t *Timetable) Schedule(k Key) (*Schedule, bool) { return t.rows.Get(k) }

// Schedules iterates the schedules of a tenant, by name.
func (t *Timetable) Schedules(tenant string) iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		for s := range t.rows.RowsFrom(Key{Tenant: tenant}) {
			if s.Tenant != tenant || !yield(s) {
				return
			}
		}
	}
}

// AllSchedules iterates the schedules of all tenants.
func (t *Timetable) AllSchedules() iter.Seq[*Schedule] { return t.rows.Rows() }

// ScheduleCount is how many schedules there are.
func (t *Timetable) ScheduleCount() int { return t.rows.Len() }

// DueSchedules iterates those that are due at a time, the earliest first.
func (t *Timetable) DueSchedules(now int64) iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		t.due.AscendFrom(dueAt{}, func(d dueAt) bool {
			if d.at > now {
				return false
			}
			s, _ := t.rows.Get(d.Key)
			return yield(s)
		})
	}
}
