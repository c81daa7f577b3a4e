package budgets

import (
	"time"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Hour is one GPU for an hour, in the unit of Budget.Used.
const Hour = uint64(1000 * 3_600_000)

// Budget is the GPU time of a tenant in a month. Rows are immutable once they are in the state.
type Budget struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	// Month is when the month began, in Unix milliseconds.
	Month int64 `cbor:"2,keyasint,omitempty"`
	// Used is the GPU time of the month as of At, in thousandths of a GPU times milliseconds.
	Used uint64 `cbor:"3,keyasint,omitempty"`
	// At is in Unix milliseconds of log time.
	At int64 `cbor:"4,keyasint,omitempty"`
	// Holds is the sum of the leases of its jobs since then, in thousandths of a GPU.
	Holds uint64 `cbor:"5,keyasint,omitempty"`
	// Granted is the index at which GPUs were last granted, and Before what was used in the month up to then.
	Granted uint64 `cbor:"6,keyasint,omitempty"`
	Before  uint64 `cbor:"7,keyasint,omitempty"`
	// Warned is when its running jobs were warned that the hours of the month are used up, and Stopped when those without a time
	// limit were asked to stop, in Unix milliseconds; 0: they were not (package overdraft).
	Warned  int64 `cbor:"8,keyasint,omitempty"`
	Stopped int64 `cbor:"9,keyasint,omitempty"`
}

// MonthOf is when the month of a time began, and when the next one does, in Unix milliseconds.
func MonthOf(ms int64) (begin, end int64) {
	t := time.UnixMilli(ms).UTC()
	first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return first.UnixMilli(), first.AddDate(0, 1, 0).UnixMilli()
}

// Settle brings the row up to a time, in Unix nanoseconds.
func (b *Budget) Settle(now int64) {
	ms := now / 1e6
	if ms <= b.At {
		return
	}
	if month, _ := MonthOf(ms); month != b.Month {
		b.Month, b.Used, b.At, b.Warned, b.Stopped = month, 0, month, 0, 0
	}
	b.Used += b.Holds * uint64(ms-b.At)
	b.At = ms
}

// SpentBy is the GPU time used in the month of a time, in Unix nanoseconds, up to then. A nil row has used nothing.
func (b *Budget) SpentBy(now int64) uint64 {
	if b == nil {
		return 0
	}
	c := *b
	c.Settle(now)
	return c.Used
}

// Reaches is when so much is used in the month, in Unix milliseconds, if its jobs hold what they hold now; false: not in this month.
func (b *Budget) Reaches(used uint64) (at int64, ok bool) {
	if b.Used >= used {
		return b.At, true
	}
	if b.Holds == 0 {
		return 0, false
	}
	left := (used - b.Used + b.Holds - 1) / b.Holds
	_, end := MonthOf(b.Month)
	if left >= uint64(end-b.At) {
		return 0, false
	}
	return b.At + int64(left), true
}

// Ends is when the month of the row is over, in Unix nanoseconds.
func (b *Budget) Ends() int64 {
	_, end := MonthOf(b.Month)
	return end * 1e6
}

// AppendFields implements kernel.Row.
func (b *Budget) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(b.Tenant).Int(b.Month).Num(b.Used).Int(b.At).Num(b.Holds).Num(b.Granted).Num(b.Before)
	if b.Warned != 0 || b.Stopped != 0 { // of a later level than the other fields: without them the hash is theirs
		f = f.Int(b.Warned).Int(b.Stopped)
	}
	return f
}
