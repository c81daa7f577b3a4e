package tables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
)

// scheduled is a copy of the first schedule.
func scheduled(s *State) schedules.Schedule {
	for row := range schedules.Of(s.kernel).AllSchedules() {
		return *row
	}
	return schedules.Schedule{}
}

// TestCheck_ofWhatIsArranged is TestCheck_canFail for promises, windows, GPUs by type and GPU hours.
func TestCheck_ofWhatIsArranged(t *testing.T) {
	live := func(s *State) *work.Job {
		for l := range s.Leases() {
			j, _ := s.Job(l.Job)
			return j
		}
		return nil
	}
	waiting := func(s *State) *work.Job {
		for j := range s.jobs.rows.Rows() {
			if _, claimed := s.ClaimOf(j.ID); j.Waiting() && j.Array == nil && j.Shape.Nodes <= 1 && !claimed {
				return j
			}
		}
		return nil
	}
	promise := func(s *State, change func(*promises.Promise)) {
		j := waiting(s)
		at := s.meta.Now + 1
		p := &promises.Promise{Job: j.ID, Attempt: j.Attempt + 1, StartAt: at, Until: promises.EndOf(j, at), Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 1}}}
		change(p)
		s.PutPromise(p)
	}
	for name, c := range map[string]struct {
		breakIt func(s *State)
		says    string
	}{
		"a promise to a job that runs": {func(s *State) {
			promise(s, func(p *promises.Promise) { p.Job = live(s).ID })
		}, "which does not wait"},
		"a promise for another attempt":        {func(s *State) { promise(s, func(p *promises.Promise) { p.Attempt += 5 }) }, "is for attempt"},
		"a promise that ends at another time":  {func(s *State) { promise(s, func(p *promises.Promise) { p.Until += 7 }) }, "ends at"},
		"a promise of a GPU that is not there": {func(s *State) { promise(s, func(p *promises.Promise) { p.Tasks[0].GPUs = 1 << 60 }) }, "do not exist"},
		"more promises than are allowed": {func(s *State) {
			p := s.Policy()
			p.Backfill.Reservations, p.Revision = 0, 1
			s.SetPolicy(&p, s.meta.Now)
		}, "I14: 1 promises, and the policy allows 0"},
		"GPUs by type that no lease holds": {func(s *State) { typed.Hold(&s.typed.tenants, "acme", "X1", 500) }, "500 thousandths of X1 GPUs by count"},
		"a lease that is not counted by type": {func(s *State) {
			j := live(s)
			for _, name := range s.GPUTypes() {
				typed.Hold(&s.typed.queues, j.Queue, name, -s.QueueTreeOfType(j.Queue, name))
			}
		}, "figures of queues by type of GPU"},
		"a window that keeps a node on which something was placed": {func(s *State) {
			for l := range s.Leases() {
				s.PutWindow(&windows.Window{
					Name: "w", Kind: windows.Maintenance, Nodes: []string{l.Node}, From: l.GrantedAt - 1, Until: s.meta.Now + 1, Begun: true,
				})
				return
			}
		}, "which the window \"w\" keeps from it"},
		"a window without nodes": {func(s *State) {
			s.PutWindow(&windows.Window{Name: "w", Kind: windows.Maintenance, From: 1, Until: s.meta.Now + 1})
		}, "the window \"w\" lasts from"},
		"a schedule that is due for a time that it was run for": {func(s *State) {
			row := scheduled(s)
			row.LastFor = row.Next
			schedules.Add(schedules.Of(s.kernel), &row)
		}, "and is due at"},
		"a schedule with a job of another tenant": {func(s *State) {
			row := scheduled(s)
			row.LastJob = live(s).ID
			row.Tenant = "nobody"
			schedules.Add(schedules.Of(s.kernel), &row)
		}, "has submitted"},
		"a schedule without a job": {func(s *State) {
			row := scheduled(s)
			row.Job = nil
			schedules.Add(schedules.Of(s.kernel), &row)
		}, "has a job of 0 bytes"},
		"too many schedules of a tenant": {func(s *State) {
			for i := range schedules.MaxOfTenant {
				row := scheduled(s)
				row.Name = fmt.Sprint(i)
				schedules.Add(schedules.Of(s.kernel), &row)
			}
		}, "has more than 500 schedules"},
		"a budget that counts what is not held": {func(s *State) {
			at := s.meta.Now / 1e6
			month, _ := budgets.MonthOf(at)
			budgets.Put(&s.Meter, &budgets.Budget{Tenant: "nobody", Month: month, At: at, Holds: 3000})
		}, "counts 3000 thousandths of GPUs, and its jobs hold 0"},
	} {
		t.Run(name, func(t *testing.T) {
			m, tables := story(t)
			require.Empty(t, kernel.Check(m.View()))
			c.breakIt(tables)
			m.StoreConfiguration(m.View().Index(), m.View().Voters()) // publishes it
			require.Contains(t, strings.Join(kernel.Check(m.View()), "\n"), c.says)
		})
	}
}
