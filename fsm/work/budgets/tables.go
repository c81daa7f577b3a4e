package budgets

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

const record = 113

// Meter has the budgets. Its methods read; what changes them is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Meter struct {
	rows kernel.Table[string, *Budget]
	// ends are when the months of the rows are over.
	ends kernel.Index[end]
	// touched are the tenants whose holdings the present command has changed; the value says whether it granted GPUs.
	touched map[string]bool
	order   []string
	// log has the tenants whose rows have changed, and changed is up to where it goes. The log is nil in a frozen copy.
	log     *changes.Log[string]
	changed changes.Mark[string]
}

type end struct {
	at     int64
	tenant string
}

// NewMeter returns an empty one.
func NewMeter() Meter {
	return Meter{
		rows:    kernel.NewTable[string, *Budget](record, func(a, b string) bool { return a < b }),
		ends:    kernel.NewIndex(func(a, b end) bool { return a.at < b.at || a.at == b.at && a.tenant < b.tenant }),
		touched: map[string]bool{},
		log:     changes.New[string](),
	}
}

// Record is the kind of row; at finds the tables of a state.
func Record(at func(*kernel.State) *Meter) kernel.RecordDef {
	return kernel.Rows(record, "budget", func(s *kernel.State) *kernel.Table[string, *Budget] { return &at(s).rows },
		func(s *kernel.State, b *Budget) error {
			b.Tenant = s.Intern(b.Tenant)
			Put(at(s), b)
			return nil
		})
}

// Freeze returns a copy for a view.
func Freeze(l *Meter) Meter {
	return Meter{rows: l.rows.Freeze(), ends: l.ends.Freeze(), changed: l.log.End()}
}

// BudgetsChanged is a mark behind the tenants whose row has changed. So the tenants between the marks of two views are those
// whose rows differ, beside some whose rows do not.
func (l *Meter) BudgetsChanged() changes.Mark[string] { return l.changed }

// Put puts a row in, in the place of the one of its tenant.
func Put(l *Meter, b *Budget) {
	if old, ok := l.rows.Get(b.Tenant); ok {
		l.ends.Delete(end{old.Ends(), b.Tenant})
	}
	l.rows.Put(b.Tenant, b)
	l.log.Add(b.Tenant)
	l.ends.Put(end{b.Ends(), b.Tenant})
}

// Drop takes the row of a tenant out.
func Drop(l *Meter, b *Budget) {
	l.rows.Delete(b.Tenant)
	l.log.Add(b.Tenant)
	l.ends.Delete(end{b.Ends(), b.Tenant})
}

// Touch notes that the present command changes what a tenant holds; the row changes once, with [Settle].
func Touch(l *Meter, tenant string, granted bool) {
	was, there := l.touched[tenant]
	if !there {
		l.order = append(l.order, tenant)
	}
	l.touched[tenant] = was || granted
}

// Settle brings the rows of the touched tenants up to date; holds returns the GPUs that a tenant holds now, in thousandths.
func Settle(l *Meter, now int64, index uint64, holds func(tenant string) int) {
	if len(l.order) == 0 {
		return
	}
	for _, tenant := range l.order {
		b := &Budget{Tenant: tenant, At: now / 1e6}
		b.Month, _ = MonthOf(b.At)
		if old, ok := l.rows.Get(tenant); ok {
			c := *old
			b = &c
			b.Settle(now)
		}
		b.Holds = uint64(holds(tenant))
		if l.touched[tenant] {
			b.Granted, b.Before = index, b.Used
		}
		Put(l, b)
	}
	l.order = l.order[:0]
	clear(l.touched)
}

// Budget returns the row of a tenant; nil: it has held nothing this month.
func (l *Meter) Budget(tenant string) *Budget {
	b, _ := l.rows.Get(tenant)
	return b
}

// Budgets iterates all rows by tenant.
func (l *Meter) Budgets() iter.Seq[*Budget] { return l.rows.Rows() }

// Over returns a row whose month is over; nil: there is none.
func (l *Meter) Over(now int64) *Budget {
	if e, ok := l.ends.Min(); ok && e.at <= now {
		return l.Budget(e.tenant)
	}
	return nil
}

// NextMonth is when the month of a row is over next; false: there are no rows.
func (l *Meter) NextMonth() (int64, bool) {
	e, ok := l.ends.Min()
	return e.at, ok
}

// CheckBudgets reports what does not hold of the rows: holds returns the GPUs that a tenant holds, limit the hours that its quota allows and the
// index at which it was set (false: no limit).
func (l *Meter) CheckBudgets(now int64, holds func(tenant string) int, limit func(tenant string) (int32, uint64, bool), report kernel.Report) {
	for b := range l.Budgets() {
		if begin, _ := MonthOf(b.At); begin != b.Month || b.At > now/1e6 {
			report("I16: the budget of tenant %q is of the month of %d, as of %d", b.Tenant, b.Month, b.At)
		}
		if b.Holds != uint64(holds(b.Tenant)) {
			report("I16: the budget of tenant %q counts %d thousandths of GPUs, and its jobs hold %d", b.Tenant, b.Holds, holds(b.Tenant))
		}
		if hours, since, ok := limit(b.Tenant); ok && b.Granted > since && b.Before >= uint64(hours)*Hour {
			report("I16: tenant %q was granted GPUs at index %d, after %d GPU hours of %d in the month", b.Tenant, b.Granted, b.Before/Hour, hours)
		}
		if !l.ends.Has(end{b.Ends(), b.Tenant}) {
			report("I16: the budget of tenant %q has no end at %d", b.Tenant, b.Ends())
		}
	}
	if l.ends.Len() != l.rows.Len() {
		report("I16: %d budgets and %d ends", l.rows.Len(), l.ends.Len())
	}
}
