package executions

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
)

// sample is a book with an execution that waits for a timer, a job, an event and a decision, and one that is over.
func sample() *Book {
	t := open(nil).(*Book)
	e := &Execution{ID: 1, Tenant: "acme", Core: 1, Status: Waiting, Seq: 1, Key: "k", Waits: []Wait{
		{ID: 1, Kind: ForTimer, Due: 10},
		{ID: 2, Kind: ForJob, Job: 7, Deadline: 20},
		{ID: 3, Kind: ForEvent, Event: "go", Deadline: 20},
		{ID: 4, Kind: ForDecision, Decision: 9, Deadline: 20},
		{ID: 5, Kind: ForExecution, Execution: 3, Deadline: 20},
	}}
	Put(t, e)
	Put(t, &Execution{ID: 2, Tenant: "acme", Core: 1, Status: Completed, Seq: 1, FinishedAt: 5})
	Put(t, &Execution{ID: 3, Tenant: "acme", Core: 1, Status: Ready, Parent: 1, ParentWait: 5})
	PutDecision(t, &Decision{
		ID: 9, Tenant: "acme", Core: 1, Execution: 1, Wait: 4, Status: Pending, Needed: 1, Of: 1, ExpiresAt: 20,
		NotifyURL: "https://hooks.example", Notices: 2, Untold: []Notice{{Number: 1, Event: NoticeCreated}, {Number: 2, Event: NoticeReminder}},
	})
	PutDecision(t, &Decision{ID: 10, Tenant: "acme", Job: 7, Path: "gate", Status: Pending, Needed: 1, Of: 1, ExpiresAt: 20})
	Append(t, &Segment{ID: 1, Tenant: "acme", Core: 1, Execution: 1, Events: []Happening{{Type: "x"}}})
	return t
}

func findings(t *Book) (found []string) {
	t.check(func(id ident.Job) Standing { return Standing{Lives: id == 7, Stops: id == 7} }, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
	return found
}

// TestCheck_canFail breaks a book in each way that the check looks for.
func TestCheck_canFail(t *testing.T) {
	require.Empty(t, findings(sample()))
	edit := func(change func(e *Execution)) func(*Book) {
		return func(b *Book) {
			old, _ := b.executions.Get(1)
			e := Edit(old)
			change(e)
			Put(b, e)
		}
	}
	decide := func(change func(d *Decision)) func(*Book) {
		return func(b *Book) {
			old, _ := b.decisions.Get(9)
			d := *old
			change(&d)
			PutDecision(b, &d)
		}
	}
	gate := func(change func(d *Decision)) func(*Book) {
		return func(b *Book) {
			old, _ := b.decisions.Get(10)
			d := *old
			change(&d)
			PutDecision(b, &d)
		}
	}
	for says, breaks := range map[string]func(*Book){
		"has the status 77":          edit(func(e *Execution) { e.Status = 77 }),
		"and a frame of":             edit(func(e *Execution) { e.Frame = make([]byte, MaxFrame+1) }),
		"and should be":              edit(func(e *Execution) { e.Status = Ready }),
		"is over, and waits":         edit(func(e *Execution) { e.Status = Failed }),
		"are not in order":           edit(func(e *Execution) { e.Waits[1].ID = 1 }),
		"nothing ends the wait":      edit(func(e *Execution) { e.Waits[2].Deadline = 0 }),
		"which is over or not":       edit(func(e *Execution) { e.Waits[1].Job = 8 }),
		"which is not pending":       decide(func(d *Decision) { d.Status, d.ResolvedAt = Resolved, 3 }),
		"which does not run":         edit(func(e *Execution) { e.Waits[4].Execution = 2 }),
		"and was resolved at":        decide(func(d *Decision) { d.Status = Resolved }),
		"and needs":                  decide(func(d *Decision) { d.Needed = 0 }),
		"is asked by":                decide(func(d *Decision) { d.Execution = 0 }),
		"does not wait at the gate":  gate(func(d *Decision) { d.Job = 8 }),
		"and the job job_7 is to go": gate(func(d *Decision) { d.Owed = true }),
		"nothing ends the decision":  decide(func(d *Decision) { d.ExpiresAt = 0 }),
		"under their executions":     func(b *Book) { b.happened.Delete(ofExecution{1, 1}) },
		"no leader sees it":          func(b *Book) { b.ready.Delete(ofCore{1, 3}) },
		"is not listed under":        func(b *Book) { b.byTenant.Delete(ofTenant{"acme", 1}) },
		"are counted":                func(b *Book) { b.bytes++ },
		"are listed, and there":      func(b *Book) { b.events.Delete(eventWait{1, "go", 1, 3}) },
		"are counted by tenant":      func(b *Book) { b.counts.Put(count{"acme", 5}) },
		"and no URL":                 decide(func(d *Decision) { d.NotifyURL = "" }),
		"not counted":                decide(func(d *Decision) { d.Notices = 1 }),
		"about the same event":       decide(func(d *Decision) { d.Untold = []Notice{{Number: 1, Event: 1}, {Number: 2, Event: 1}} }),
		"untold: [":                  func(b *Book) { b.untold.Delete(tenantDecision{"acme", 9}) },
		"decisions by status":        func(b *Book) { b.answers[Pending]++ },
		"executions and decisions":   func(b *Book) { b.statuses[Waiting]-- },
	} {
		b := sample()
		breaks(b)
		require.Contains(t, fmt.Sprint(findings(b)), says)
	}
}
