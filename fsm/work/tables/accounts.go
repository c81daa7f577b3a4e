package tables

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

func (s *rows) life() accounts.Life { return accounts.Life(s.Policy().HalfLife) }

// SetPolicy puts the policy in. The use up to now has decayed by the old policy, and decays from now on by the new one: so all accounts are brought up to now, if that differs.
func (s *State) SetPolicy(p *policy.Policy, now int64) {
	if from, to := s.life(), accounts.Life(p.HalfLife); from != to {
		accounts.Rescale(&s.Bank, now, from, to)
	}
	policy.Put(&s.Table, p)
}

// accountOf names the account of a job's user.
func accountOf(j *work.Job) accounts.Key {
	return accounts.Key{Queue: j.Queue, Tenant: j.Tenant, User: j.User}
}

// Charge begins to charge what a job holds to its user's account, and Discharge ends it; see [accounts.Charge].
func (s *State) Charge(j *work.Job, now int64) {
	accounts.Charge(&s.Bank, accountOf(j), j.Shape.Amount(), now, s.life)
}

// Discharge is the opposite of Charge.
func (s *State) Discharge(j *work.Job, now int64) {
	accounts.Discharge(&s.Bank, accountOf(j), j.Shape.Amount(), now, s.life)
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
func (s *State) FadedAccount(now int64) *accounts.Account { return s.Faded(now, s.life()) }

// checkAccounts holds that each account has what the jobs of its user hold.
func checkAccounts(s *rows, report kernel.Report) {
	held := map[accounts.Key]accounts.Amount{}
	if s.meta.Accounting != 0 {
		for id := range s.jobs.active.All() {
			if j, ok := s.Job(id); ok {
				sum := held[accountOf(j)]
				sum.Add(j.Shape.Amount())
				held[accountOf(j)] = sum
			}
		}
	}
	s.CheckAccounts(held, s.meta.Now, report)
}
