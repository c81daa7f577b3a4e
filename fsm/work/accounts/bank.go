package accounts

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

const record = 112

// Bank has the accounts. Its methods read; what changes it is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Bank struct {
	rows kernel.Table[Key, *Account]
	// idle lists the accounts in which nothing is held, the longest so first.
	idle kernel.Index[idle]
	// charges are the accounts that the present command has changed; charged says where each is.
	charges []charge
	charged map[Key]int
}

type idle struct {
	at  int64
	key Key
}

// charge is an account that a command changes; old is the row in the table, nil if there is none.
type charge struct {
	old *Account
	now Account
}

// NewBank returns an empty one.
func NewBank() Bank {
	return Bank{
		rows: kernel.NewTable[Key, *Account](record, func(a, b Key) bool { return a.Compare(b) < 0 }),
		idle: kernel.NewIndex(func(a, b idle) bool {
			return a.at < b.at || a.at == b.at && a.key.Compare(b.key) < 0
		}),
		charged: map[Key]int{},
	}
}

// Record is the kind of row; at finds the accounts of a state.
func Record(at func(*kernel.State) *Bank) kernel.RecordDef {
	return kernel.Rows(record, "account", func(s *kernel.State) *kernel.Table[Key, *Account] { return &at(s).rows },
		func(s *kernel.State, a *Account) error {
			a.Queue, a.Tenant, a.User = s.Intern(a.Queue), s.Intern(a.Tenant), s.Intern(a.User)
			Put(at(s), nil, a)
			return nil
		})
}

// Freeze returns a copy for a view.
func Freeze(b *Bank) Bank { return Bank{rows: b.rows.Freeze(), idle: b.idle.Freeze()} }

// Put puts a row in, in the place of old; nil: there was none.
func Put(b *Bank, old, a *Account) {
	key := a.Key()
	b.rows.Put(key, a)
	if old != nil && old.Idle() {
		b.idle.Delete(idle{old.At, key})
	}
	if a.Idle() {
		b.idle.Put(idle{a.At, key})
	}
}

// Drop takes an idle account out.
func Drop(b *Bank, a *Account) {
	b.rows.Delete(a.Key())
	b.idle.Delete(idle{a.At, a.Key()})
}

// Charge begins to charge what is held to an account, and Discharge ends it. The rows change with Settle: so a command that is
// about many jobs of one user changes the row of the account once.
func Charge(b *Bank, k Key, held Amount, now int64, life func() Life) {
	open(b, k, now, life).Holds.Add(held)
}

// Discharge is the opposite of Charge.
func Discharge(b *Bank, k Key, held Amount, now int64, life func() Life) {
	open(b, k, now, life).Holds.Sub(held)
}

// open returns an account, up to date and to be changed.
func open(b *Bank, k Key, now int64, life func() Life) *Account {
	if i, ok := b.charged[k]; ok {
		return &b.charges[i].now
	}
	c := charge{now: Account{Queue: k.Queue, Tenant: k.Tenant, User: k.User, At: now / 1e6}}
	if a, ok := b.rows.Get(k); ok {
		c.old, c.now = a, *a
		c.now.Settle(now, life())
	}
	b.charged[k] = len(b.charges)
	b.charges = append(b.charges, c)
	return &b.charges[len(b.charges)-1].now
}

// Settle brings the accounts that a command has changed into the rows.
func Settle(b *Bank) {
	if len(b.charges) == 0 {
		return
	}
	for i := range b.charges {
		a := b.charges[i].now
		Put(b, b.charges[i].old, &a)
	}
	b.charges = b.charges[:0]
	clear(b.charged)
}

// Rescale brings all accounts up to a time, from which on they decay with another half-life.
func Rescale(b *Bank, now int64, from, to Life) {
	all := make([]*Account, 0, b.rows.Len())
	for a := range b.Accounts() {
		all = append(all, a)
	}
	for _, a := range all {
		c := *a
		c.Change(now, from, to)
		Put(b, a, &c)
	}
}

// Accounts iterates the accounts by queue, tenant and user.
func (b *Bank) Accounts() iter.Seq[*Account] { return b.rows.Rows() }

// AccountsOf iterates the accounts of a tenant's users in a queue.
func (b *Bank) AccountsOf(queue, tenant string) iter.Seq[*Account] {
	return func(yield func(*Account) bool) {
		for a := range b.rows.RowsFrom(Key{Queue: queue, Tenant: tenant}) {
			if a.Queue != queue || a.Tenant != tenant || !yield(a) {
				return
			}
		}
	}
}

// NextFaded is when the next account has been idle for so long that it is forgotten; false: none is idle.
func (b *Bank) NextFaded(life Life) (int64, bool) {
	first, ok := b.idle.Min()
	return Expires(first.at, life), ok
}

// Faded returns an account that has been idle for so long that it is to be forgotten; nil: there is none.
func (b *Bank) Faded(now int64, life Life) *Account {
	first, ok := b.idle.Min()
	if !ok || Expires(first.at, life) > now {
		return nil
	}
	a, _ := b.rows.Get(first.key)
	return a
}

// CheckAccounts reports what does not hold of the accounts at a time: held is the sum of the leases of each user's jobs.
func (b *Bank) CheckAccounts(held map[Key]Amount, now int64, report kernel.Report) {
	listed := 0
	for a := range b.Accounts() {
		if a.Holds != held[a.Key()] {
			report("the account of %v holds %v, and the jobs of its user %v", a.Key(), a.Holds, held[a.Key()])
		}
		delete(held, a.Key())
		if a.Idle() {
			listed++
			if !b.idle.Has(idle{a.At, a.Key()}) {
				report("the account of %v is not listed as idle", a.Key())
			}
		}
		if a.At > now/1e6 {
			report("the account of %v is of %d, after %d", a.Key(), a.At, now/1e6)
		}
	}
	if len(held) > 0 {
		report("%d users hold something and have no account", len(held))
	}
	if n := b.idle.Len(); n != listed {
		report("%d accounts are listed as idle instead of %d", n, listed)
	}
}
