package accounts

import (
	"strings"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Key names an account.
type Key struct{ Queue, Tenant, User string }

// Compare orders accounts by queue, then tenant, then user.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Queue, other.Queue); c != 0 {
		return c
	}
	if c := strings.Compare(k.Tenant, other.Tenant); c != 0 {
		return c
	}
	return strings.Compare(k.User, other.User)
}

// Amount is so much of each resource.
type Amount struct {
	// GPUMilli is thousandths of GPUs.
	GPUMilli uint64 `cbor:"1,keyasint,omitempty"`
	CPUs     uint64 `cbor:"2,keyasint,omitempty"`
	// Mem is in units of 64 MB.
	Mem uint64 `cbor:"3,keyasint,omitempty"`
}

// memUnit is how many MB a unit of memory is.
const memUnit = 64

// Mem is memory in units of an Amount, rounded up.
func Mem(mb uint64) uint64 { return (mb + memUnit - 1) / memUnit }

// Add adds another amount.
func (a *Amount) Add(b Amount) {
	a.GPUMilli += b.GPUMilli
	a.CPUs += b.CPUs
	a.Mem += b.Mem
}

// Sub takes another amount away, which is at most as much.
func (a *Amount) Sub(b Amount) {
	a.GPUMilli -= b.GPUMilli
	a.CPUs -= b.CPUs
	a.Mem -= b.Mem
}

// Times is n of the same amount.
func (a Amount) Times(n int) Amount {
	k := uint64(max(n, 0))
	return Amount{a.GPUMilli * k, a.CPUs * k, a.Mem * k}
}

func (a *Amount) appendFields(f kernel.Fields) kernel.Fields {
	return f.Num(a.GPUMilli).Num(a.CPUs).Num(a.Mem)
}

// Account is the use of one queue by one user of a tenant. Rows are immutable once they are in the state.
type Account struct {
	Queue  string `cbor:"1,keyasint,omitempty"`
	Tenant string `cbor:"2,keyasint,omitempty"`
	User   string `cbor:"3,keyasint,omitempty"`
	// Used is the decayed sum of what was held, amounts times milliseconds, as of At.
	Used Amount `cbor:"4,keyasint,omitempty"`
	// At is in Unix milliseconds of log time.
	At int64 `cbor:"5,keyasint,omitempty"`
	// Holds is the sum of the leases of the user's jobs in the queue since then.
	Holds Amount `cbor:"6,keyasint,omitempty"`
}

// Key is the name of the account.
func (a *Account) Key() Key { return Key{a.Queue, a.Tenant, a.User} }

// Idle says whether nothing is held.
func (a *Account) Idle() bool { return a.Holds == Amount{} }

// Settle brings the sums up to a time, in Unix nanoseconds.
func (a *Account) Settle(now int64, life Life) {
	at := now / 1e6
	if at <= a.At {
		return
	}
	f := left(uint64(at-a.At), life.half())
	a.Used = Amount{
		GPUMilli: life.after(a.Used.GPUMilli, a.Holds.GPUMilli, f),
		CPUs:     life.after(a.Used.CPUs, a.Holds.CPUs, f),
		Mem:      life.after(a.Used.Mem, a.Holds.Mem, f),
	}
	a.At = at
}

// Change brings the sums up to a time, and makes them such as go on with another half-life. The means stay what they are.
func (a *Account) Change(now int64, from, to Life) {
	a.Settle(now, from)
	a.Used = Amount{from.rescaled(a.Used.GPUMilli, to), from.rescaled(a.Used.CPUs, to), from.rescaled(a.Used.Mem, to)}
}

// keptFor is how many half-lives an account is kept in which nothing is held: a thousandth is left then.
const keptFor = 10

// Expires is when an idle account is forgotten, in Unix nanoseconds.
func Expires(at int64, life Life) int64 { return at*1e6 + keptFor*int64(life) }

// UsageBits is how many bits of a Usage are after the point.
const UsageBits = 20

// Usage is the use that counts for fair share: the mean of what was held lately, plus what is held now. It is an amount with
// UsageBits bits after the point.
type Usage Amount

// Add adds another one.
func (u *Usage) Add(other Usage) { (*Amount)(u).Add(Amount(other)) }

// Now is the usage of an amount that is held from now on.
func (a Amount) Now() Usage {
	return Usage{a.GPUMilli << UsageBits, a.CPUs << UsageBits, a.Mem << UsageBits}
}

// Lately is the mean of what was held lately, at a time in Unix nanoseconds.
func (a *Account) Lately(now int64, life Life) Usage {
	b := *a
	b.Settle(now, life)
	return Usage{life.mean(b.Used.GPUMilli), life.mean(b.Used.CPUs), life.mean(b.Used.Mem)}
}

// Usage is that of the account at a time, in Unix nanoseconds.
func (a *Account) Usage(now int64, life Life) Usage {
	u := a.Lately(now, life)
	u.Add(a.Holds.Now())
	return u
}

// AppendFields implements kernel.Hashed.
func (a *Account) AppendFields(f kernel.Fields) kernel.Fields {
	f = a.Used.appendFields(f.Text(a.Queue).Text(a.Tenant).Text(a.User))
	return a.Holds.appendFields(f.Int(a.At))
}
