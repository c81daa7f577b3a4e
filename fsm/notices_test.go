package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/level"
)

// toURL has a question announced to a URL.
func toURL(f executionverbs.Effect) executionverbs.Effect {
	f.Ask.NotifyURL = "https://hooks.example/1"
	return f
}

// announced asks a question, and returns its decision.
func (w *world) announced(f executionverbs.Effect) *executions.Decision {
	id := w.start(w.core("triage"))
	require.Nil(w.t, w.advance(id, f).Refusal)
	return w.decision(w.execution(id).Waits[0].Decision)
}

func (w *world) decision(id ident.Decision) *executions.Decision {
	d, ok := w.m.View().Decision(id)
	require.True(w.t, ok)
	return d
}

func untold(d *executions.Decision) (events []string) {
	for _, n := range d.Untold {
		events = append(events, n.Event.String())
	}
	return events
}

func (w *world) withNotices() (ids []ident.Decision) {
	for tenant := range w.m.View().UntoldTenants("") {
		for d := range w.m.View().UntoldOf(tenant, 0) {
			require.Equal(w.t, tenant, d.Tenant)
			ids = append(ids, d.ID)
		}
	}
	require.Len(w.t, ids, w.m.View().UntoldCount())
	return ids
}

func TestNotices_nobodyIsToldWithoutAURL(t *testing.T) {
	w := newWorld(t)
	d := w.announced(aQuestion(1))
	w.do(executionverbs.ReassignDecision{Decision: d.ID, Tenant: "acme", Any: true, Assignee: "ann"})
	require.Empty(t, w.decision(d.ID).Untold)
	require.Empty(t, w.withNotices())
}

func TestNotices_everyChangeIsAnnounced(t *testing.T) {
	w := newWorld(t)
	f := toURL(aQuestion(1))
	f.Ask.OnExpiry, f.Ask.EscalateTo, f.Ask.RemindEvery = executions.ExpireEscalate, "bob", int64(20*time.Minute)
	// The state numbers notices itself, and takes nothing of it from a leader.
	f.Ask.Notices, f.Ask.NotifyError = 9, "made up"
	d := w.announced(f)
	require.Equal(t, []executions.Notice{{Number: 1, Event: executions.NoticeCreated, At: w.now}}, d.Untold)
	require.Empty(t, d.NotifyError)
	w.do(executionverbs.ReassignDecision{Decision: d.ID, Tenant: "acme", Any: true, Assignee: "ann"})
	w.do(executionverbs.ReassignDecision{Decision: d.ID, Tenant: "acme", Any: true, Assignee: "ann"}) // changes nothing
	require.Equal(t, []string{"decision.created", "decision.reassigned"}, untold(w.decision(d.ID)))
	for range 2 { // Of two reminders that were not told the newer one is kept.
		w.later(20 * time.Minute)
		w.tick()
	}
	require.Equal(t, []string{"decision.created", "decision.reassigned", "decision.reminder"}, untold(w.decision(d.ID)))
	require.EqualValues(t, 4, w.decision(d.ID).Untold[2].Number)
	w.later(20 * time.Minute)
	w.tick() // The decision expires, and is escalated.
	require.Equal(t, "decision.escalated", untold(w.decision(d.ID))[3])
	w.later(2 * time.Hour)
	for range 9 {
		w.tick()
	}
	require.Equal(t, []string{"decision.created", "decision.reassigned", "decision.reminder", "decision.escalated", "decision.expired"}, untold(w.decision(d.ID)))
}

func TestNotices_endsAreAnnounced(t *testing.T) {
	for want, end := range map[string]func(w *world, d *executions.Decision){
		"decision.resolved": func(w *world, d *executions.Decision) {
			w.do(executionverbs.ResolveDecision{Decision: d.ID, Tenant: "acme", User: "ann", Resolution: "yes"})
		},
		"decision.cancelled": func(w *world, d *executions.Decision) {
			w.do(executionverbs.CancelDecision{Decision: d.ID, Tenant: "acme", Any: true})
		},
		"decision.expired": func(w *world, _ *executions.Decision) {
			w.later(time.Hour)
			w.tick()
		},
	} {
		w := newWorld(t)
		d := w.announced(toURL(aQuestion(1)))
		end(w, d)
		require.Equal(t, []string{"decision.created", want}, untold(w.decision(d.ID)))
	}
	// An execution that ends takes its questions back.
	w := newWorld(t)
	d := w.announced(toURL(aQuestion(1)))
	w.do(executionverbs.ControlExecution{Execution: d.Execution, Tenant: "acme", Action: executionverbs.Cancel, Force: true})
	require.Equal(t, []string{"decision.created", "decision.cancelled"}, untold(w.decision(d.ID)))
}

func TestNotices_noted(t *testing.T) {
	w := newWorld(t)
	d := w.announced(toURL(aQuestion(1)))
	require.Equal(t, []ident.Decision{d.ID}, w.withNotices())
	note := func(n executionverbs.Note) int {
		n.Decision = d.ID
		return do[executionverbs.NotesResult](w, executionverbs.NoteNotices{Notes: []executionverbs.Note{n, {Decision: 1, Number: 1, Over: true}}}).Noted
	}
	require.Equal(t, 1, note(executionverbs.Note{Number: 1, Err: "it answered 500"}))
	require.Equal(t, "it answered 500", w.decision(d.ID).NotifyError)
	require.Equal(t, []ident.Decision{d.ID}, w.withNotices(), "the try failed, and another one follows")
	require.Zero(t, note(executionverbs.Note{Number: 2, Over: true}), "there is no such notice")
	w.later(time.Minute)
	require.Equal(t, 1, note(executionverbs.Note{Number: 1, Over: true}))
	require.Equal(t, []any{w.now, ""}, []any{w.decision(d.ID).NotifiedAt, w.decision(d.ID).NotifyError})
	require.Empty(t, w.withNotices())
	require.Zero(t, note(executionverbs.Note{Number: 1, Over: true}), "it was noted before")

	at := w.now
	w.do(executionverbs.CancelDecision{Decision: d.ID, Tenant: "acme", Any: true})
	w.later(time.Minute)
	require.Equal(t, 1, note(executionverbs.Note{Number: 2, Over: true, Err: "given up"}))
	require.Equal(t, []any{at, "given up"}, []any{w.decision(d.ID).NotifiedAt, w.decision(d.ID).NotifyError})
	require.Empty(t, w.withNotices())
	_, err := executionverbs.NoteNotices{}.AtLevel(level.Released)
	require.ErrorContains(t, err, "hosting programs (Cores) needs feature level 2")
}

// A receiver takes a reminder while the next one replaces it: the row says that it was told, and the next one is still sent.
func TestNotices_takenAfterItWasReplaced(t *testing.T) {
	w := newWorld(t)
	f := toURL(aQuestion(1))
	f.Ask.RemindEvery = int64(10 * time.Minute)
	d := w.announced(f)
	note := func(n executionverbs.Note) {
		n.Decision = d.ID
		w.do(executionverbs.NoteNotices{Notes: []executionverbs.Note{n}})
	}
	note(executionverbs.Note{Number: 1, Err: "it answered 500"})
	note(executionverbs.Note{Number: 1, Over: true, Err: "given up: it answered 500"})
	for range 2 {
		w.later(10 * time.Minute)
		w.tick()
	}
	require.Equal(t, []executions.Notice{{Number: 3, Event: executions.NoticeReminder, At: w.now}}, w.decision(d.ID).Untold)
	note(executionverbs.Note{Number: 2, Err: "it answered 503"})
	note(executionverbs.Note{Number: 2, Over: true, Err: "given up: it answered 503"})
	note(executionverbs.Note{Number: 4, Over: true})
	require.Equal(t, "given up: it answered 500", w.decision(d.ID).NotifyError, "a failure of a notice that was replaced does not matter")
	w.later(time.Second)
	note(executionverbs.Note{Number: 2, Over: true})
	require.Equal(t, []any{w.now, ""}, []any{w.decision(d.ID).NotifiedAt, w.decision(d.ID).NotifyError})
	require.Len(t, w.decision(d.ID).Untold, 1)
}

// The leader goes from tenant to tenant, and through the decisions of each.
func TestNotices_byTenant(t *testing.T) {
	w := newWorld(t)
	var ids []ident.Decision
	core := w.core("triage")
	for range 3 {
		id := w.start(core)
		require.Nil(t, w.advance(id, toURL(aQuestion(1))).Refusal)
		ids = append(ids, w.execution(id).Waits[0].Decision)
	}
	list := func(tenant string, from ident.Decision) (found []ident.Decision) {
		for d := range w.m.View().UntoldOf(tenant, from) {
			found = append(found, d.ID)
		}
		return found
	}
	require.Equal(t, ids, list("acme", 0))
	require.Equal(t, ids[2:], list("acme", ids[1]+1))
	require.Empty(t, list("acm", 0))
	for from, want := range map[string][]string{"": {"acme"}, "acme": {"acme"}, "acme\x00": nil} {
		var tenants []string
		for tenant := range w.m.View().UntoldTenants(from) {
			tenants = append(tenants, tenant)
		}
		require.Equal(t, want, tenants, "from %q", from)
	}
}
