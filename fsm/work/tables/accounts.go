package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// accountTables hold what users had of the cluster, and the policy that says how it counts.
type accountTables struct {
	rows kernel.Table[accounts.Key, *accounts.Account]
	// idle lists the accounts in which nothing is held, the longest so first.
	idle   kernel.Index[idleAccount]
	policy kernel.Table[uint8, *policy.Policy]
}

type idleAccount struct {
	at  int64
	key accounts.Key
}

// policyKey is that of the one policy.
const policyKey = 1

func newAccountTables() accountTables {
	return accountTables{
		rows: kernel.NewTable[accounts.Key, *accounts.Account](recordAccount, func(a, b accounts.Key) bool { return a.Compare(b) < 0 }),
		idle: kernel.NewIndex(func(a, b idleAccount) bool {
			return a.at < b.at || a.at == b.at && a.key.Compare(b.key) < 0
		}),
		policy: kernel.NewTable[uint8, *policy.Policy](recordPolicy, func(a, b uint8) bool { return a < b }),
	}
}

func (t *accountTables) freeze() accountTables {
	return accountTables{rows: t.rows.Freeze(), idle: t.idle.Freeze(), policy: t.policy.Freeze()}
}

// Accounts iterates the accounts by queue, tenant and user.
func (s *rows) Accounts() iter.Seq[*accounts.Account] { return s.accounts.rows.Rows() }

// AccountsOf iterates the accounts of a tenant's users in a queue.
func (s *rows) AccountsOf(queue, tenant string) iter.Seq[*accounts.Account] {
	return func(yield func(*accounts.Account) bool) {
		for a := range s.accounts.rows.RowsFrom(accounts.Key{Queue: queue, Tenant: tenant}) {
			if a.Queue != queue || a.Tenant != tenant || !yield(a) {
				return
			}
		}
	}
}

// Policy is how the scheduler decides.
func (s *rows) Policy() policy.Policy {
	if p, ok := s.accounts.policy.Get(policyKey); ok {
		return *p
	}
	return policy.DefaultPolicy()
}

func (s *rows) life() accounts.Life { return accounts.Life(s.Policy().HalfLife) }

// SetPolicy puts the policy in. What was used up to now has decayed as it did before, and decays from now on as the new one
// says: so all accounts are brought up to now, if that differs.
func (s *State) SetPolicy(p *policy.Policy, now int64) {
	if from, to := s.life(), accounts.Life(p.HalfLife); from != to {
		for _, a := range s.allAccounts() {
			b := *a
			b.Change(now, from, to)
			s.putAccount(a, &b)
		}
	}
	s.accounts.policy.Put(policyKey, p)
}

func (s *State) allAccounts() []*accounts.Account {
	all := make([]*accounts.Account, 0, s.accounts.rows.Len())
	for a := range s.Accounts() {
		all = append(all, a)
	}
	return all
}

func (s *State) putAccount(old, a *accounts.Account) {
	key := a.Key()
	s.accounts.rows.Put(key, a)
	if old != nil && old.Idle() {
		s.accounts.idle.Delete(idleAccount{old.At, key})
	}
	if a.Idle() {
		s.accounts.idle.Put(idleAccount{a.At, key})
	}
}

// Charge begins to charge what a job holds to its user's account, and Discharge ends it. The accounts are in the tables
// after SettleAccounts: so a command that is about many jobs of one user changes the row of the account once.
func (s *State) Charge(j *work.Job, now int64) { s.charged(j, now).Holds.Add(j.Shape.Amount()) }

// Discharge is the opposite of Charge.
func (s *State) Discharge(j *work.Job, now int64) { s.charged(j, now).Holds.Sub(j.Shape.Amount()) }

// charged returns the account of a job's user, up to date and to be changed.
func (s *State) charged(j *work.Job, now int64) *accounts.Account {
	w, key := s.work, accounts.Key{Queue: j.Queue, Tenant: j.Tenant, User: j.User}
	if i, ok := w.charged[key]; ok {
		return &w.charges[i].now
	}
	c := chargedAccount{now: accounts.Account{Queue: j.Queue, Tenant: j.Tenant, User: j.User, At: now / 1e6}}
	if a, ok := s.accounts.rows.Get(key); ok {
		c.old, c.now = a, *a
		c.now.Settle(now, s.life())
	}
	w.charged[key] = len(w.charges)
	w.charges = append(w.charges, c)
	return &w.charges[len(w.charges)-1].now
}

// chargedAccount is an account that a command changes; old is the row in the table, nil if there is none.
type chargedAccount struct {
	old *accounts.Account
	now accounts.Account
}

// SettleAccounts brings the accounts that a command has changed into the tables.
func (s *State) SettleAccounts() {
	w := s.work
	if len(w.charges) == 0 {
		return
	}
	for i := range w.charges {
		a := w.charges[i].now
		s.putAccount(w.charges[i].old, &a)
	}
	w.charges = w.charges[:0]
	clear(w.charged)
}

// OpenAccounts begins to charge what is held.
func (s *State) OpenAccounts(now int64) {
	for id := range s.jobs.active.All() {
		if j, ok := s.Job(id); ok {
			s.Charge(j, now)
		}
	}
}

// FadedAccount returns an account that has been idle for so long that it is to be forgotten; nil: there is none.
func (s *State) FadedAccount(now int64) *accounts.Account {
	first, ok := s.accounts.idle.Min()
	if !ok || accounts.Expires(first.at, s.life()) > now {
		return nil
	}
	a, _ := s.accounts.rows.Get(first.key)
	return a
}

// DropAccount forgets an idle account.
func (s *State) DropAccount(a *accounts.Account) {
	s.accounts.rows.Delete(a.Key())
	s.accounts.idle.Delete(idleAccount{a.At, a.Key()})
}

// checkAccounts holds that each account has what the jobs of its user hold.
func checkAccounts(s *rows, report kernel.Report) {
	held := map[accounts.Key]accounts.Amount{}
	if s.meta.Accounting != 0 {
		for id := range s.jobs.active.All() {
			if j, ok := s.Job(id); ok {
				key := accounts.Key{Queue: j.Queue, Tenant: j.Tenant, User: j.User}
				sum := held[key]
				sum.Add(j.Shape.Amount())
				held[key] = sum
			}
		}
	}
	idle := 0
	for a := range s.Accounts() {
		if a.Holds != held[a.Key()] {
			report("the account of %v holds %v, and the jobs of its user %v", a.Key(), a.Holds, held[a.Key()])
		}
		delete(held, a.Key())
		if a.Idle() {
			idle++
			if !s.accounts.idle.Has(idleAccount{a.At, a.Key()}) {
				report("the account of %v is not listed as idle", a.Key())
			}
		}
		if a.At > s.meta.Now/1e6 {
			report("the account of %v is of %d, after %d", a.Key(), a.At, s.meta.Now/1e6)
		}
	}
	if len(held) > 0 {
		report("%d users hold something and have no account", len(held))
	}
	if n := s.accounts.idle.Len(); n != idle {
		report("%d accounts are listed as idle instead of %d", n, idle)
	}
	if p := s.Policy(); p.Validate() != nil {
		report("the policy is not valid: %v", p.Validate())
	}
}
