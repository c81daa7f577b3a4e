package fsm_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// hosting draws a command about Cores, executions and decisions that mostly makes sense.
func (g *generator) hosting() kernel.Command {
	core := g.core()
	switch g.n("hosting", 0, 12) {
	case 0:
		return coreverbs.PutCore{
			ID: pick(g, "core", 0, core), Tenant: g.tenant(), User: "ann", Slug: pick(g, "slug", "s1", "s2", "s3", ""),
			Source: []byte(pick(g, "source", "", "x")), Digest: pick(g, "digest", "d1", "d2"), Actor: g.actor(),
		}
	case 1, 2:
		return coreverbs.ControlCore{ID: core, Action: cores.Action(g.n("action", 0, 10)), Actor: g.actor()}
	case 3, 4:
		return executionverbs.StartExecutions{Starts: []executionverbs.Start{g.startOf(core), g.startOf(core)}[:g.n("starts", 1, 2)], Actor: g.actor()}
	case 5, 6, 7:
		return executionverbs.AdvanceExecutions{Advances: []executionverbs.Advance{g.advance(), g.advance()}[:g.n("advances", 1, 2)]}
	case 8:
		e := g.execution()
		return executionverbs.ControlExecution{
			Execution: e.ID, Tenant: pick(g, "tenant", e.Tenant, "umbrella"), Action: executionverbs.Action(g.n("action", 0, 5)),
			Force: g.yes("force"), Frame: []byte("f"), Seq: pick(g, "seq", e.Seq, e.Seq, 7), Actor: g.actor(),
		}
	case 9:
		d := g.decision()
		switch g.n("decision", 0, 3) {
		case 0:
			return executionverbs.ReassignDecision{Decision: d.ID, Tenant: d.Tenant, Assignee: pick(g, "assignee", "", "ann", "role:lead"), Any: g.yes("any"), Actor: g.actor()}
		case 1:
			return executionverbs.CancelDecision{Decision: d.ID, Tenant: d.Tenant, Any: g.yes("any"), Actor: g.actor()}
		}
		return g.resolve(d)
	case 10:
		return g.resolve(g.decision())
	case 11:
		return executionverbs.NoteNotices{Notes: []executionverbs.Note{g.note(), g.note()}[:g.n("notes", 1, 2)]}
	}
	c, _ := g.w.m.View().Core(core)
	tenant := "acme"
	if c != nil {
		tenant = c.Tenant
	}
	return executionverbs.SendEvent{
		Core: core, Tenant: tenant, Name: pick(g, "event", "go", "stop"), Data: []byte("d"), Execution: pick(g, "of", 0, g.execution().ID),
		Starts: []executionverbs.Start{g.startOf(core)}[:g.n("starts", 0, 1)],
	}
}

func (g *generator) resolve(d *executions.Decision) kernel.Command {
	return executionverbs.ResolveDecision{
		Decision: d.ID, Tenant: pick(g, "tenant", d.Tenant, d.Tenant, "umbrella"), User: pick(g, "user", "ann", "bob", "cid"), Any: g.yes("any"),
		Resolution: pick(g, "answer", "yes", "no", "maybe"), Actor: g.actor(),
	}
}

// gate draws what a job asks at a gate; nil: nothing.
func (g *generator) gate() *executions.Decision {
	if g.n("gate", 0, 2) == 0 {
		return nil
	}
	return &executions.Decision{
		Path: pick(g, "name", "gate", "gate", "second", ""), Prompt: "Go on?", Options: []executions.Option{{ID: "yes"}, {ID: "no", Cancels: true}},
		OnExpiry: executions.OnExpiry(g.n("on expiry", 0, 4)), Default: pick(g, "default", "yes", "no"), EscalateTo: "bob",
		ExpiresAt: int64(g.n("within", 0, 3)) * 60e9, Needed: uint32(g.n("needed", 0, 2)),
		NotifyURL: pick(g, "gate url", "", "https://hooks.example/a"),
	}
}

func (g *generator) note() executionverbs.Note {
	if g.yes("of a job") {
		ids := []ident.Job{1}
		for j := range g.w.m.View().Jobs(false, 0) {
			if j.Notices.Owes() {
				ids = append(ids, j.ID, j.ID)
			}
		}
		return executionverbs.Note{Job: pick(g, "job", ids...), Number: uint32(g.n("number", 0, 6)), Over: g.yes("over"), Err: pick(g, "why", "", "it answered 500")}
	}
	d := g.decision()
	numbers := []uint32{1, d.Notices + 1}
	for _, n := range d.Untold {
		numbers = append(numbers, n.Number, n.Number)
	}
	return executionverbs.Note{Decision: d.ID, Number: pick(g, "number", numbers...), Over: g.yes("over"), Err: pick(g, "why", "", "it answered 500")}
}

func (g *generator) core() ident.Core {
	ids := []ident.Core{1}
	for c := range g.w.m.View().Cores() {
		ids = append(ids, c.ID, c.ID)
	}
	return pick(g, "core", ids...)
}

func (g *generator) execution() *executions.Execution {
	all := []*executions.Execution{{ID: 1, Tenant: "acme"}}
	for _, tenant := range []string{"acme", "umbrella"} {
		for e := range g.w.m.View().ExecutionsOf(tenant, 0) {
			all = append(all, e, e)
		}
	}
	return pick(g, "execution", all...)
}

func (g *generator) decision() *executions.Decision {
	all := []*executions.Decision{{ID: 1, Tenant: "acme"}}
	for _, tenant := range []string{"acme", "umbrella"} {
		for d := range g.w.m.View().DecisionsOf(tenant, false, 0) {
			all = append(all, d)
		}
	}
	return pick(g, "decision", all...)
}

func (g *generator) startOf(core ident.Core) executionverbs.Start {
	tenant := "acme"
	if c, ok := g.w.m.View().Core(core); ok {
		tenant = c.Tenant
	}
	return executionverbs.Start{
		Core: core, Tenant: tenant, User: "ann", Version: uint32(pick(g, "version", 1, 1, 2, 9)), Flow: "main", Frame: []byte(pick(g, "frame", "f", "f", "")),
		Key: pick(g, "key", "", "", "k1"), Fingerprint: uint64(g.n("print", 0, 1)),
	}
}

func (g *generator) advance() executionverbs.Advance {
	e := g.execution()
	a := executionverbs.Advance{
		Execution: e.ID, Seq: pick(g, "seq", e.Seq, e.Seq, e.Seq, e.Seq+1), Frame: []byte("f"),
		Outcome: pick(g, "outcome", executionverbs.GoesOn, executionverbs.GoesOn, executionverbs.GoesOn, executionverbs.Completes, executionverbs.Fails, executionverbs.IsCanceled),
		More:    g.n("more", 0, 4) == 0, Canceling: g.n("canceling", 0, 4) == 0,
		Events: []executions.Happening{{Type: executionverbs.TypeEntered, Path: "a"}, {Type: executionverbs.TypeExited, Path: "a"}}[:g.n("events", 0, 2)],
	}
	last := uint32(0)
	for i := range e.Waits {
		last = e.Waits[i].ID
		if e.Waits[i].Done {
			a.Used = append(a.Used, last)
		}
	}
	for range g.n("effects", 0, 3) {
		last += uint32(g.n("number", 0, 3))
		f := executionverbs.Effect{Wait: last, Path: "a", Timeout: int64(pick(g, "timeout", 0, 60e9, 3600e9))}
		switch g.n("effect", 0, 7) {
		case 0:
			f.Cancel, f.Wait = true, uint32(g.n("wait", 0, 4))
		case 1:
			f.Timer, f.After = true, int64(pick(g, "after", 0, 60e9, -1))
		case 2, 3:
			n := g.newJob()
			f.Job, f.Until = &n, executionverbs.Until(g.n("until", 0, 2))
		case 4:
			f.Control = &jobverbs.ControlJob{Job: g.job(), Action: work.Action(g.n("control", 0, 5))}
		case 5:
			f.Ask = &executions.Decision{
				Type: "approval", Prompt: "?", Options: []executions.Option{{ID: "yes"}, {ID: "no"}}, Assignee: pick(g, "assignee", "", "ann", "group:ml"),
				OnExpiry: executions.OnExpiry(g.n("on expiry", 0, 4)), Default: "no", EscalateTo: "bob", RemindEvery: int64(pick(g, "remind", 0, 60e9, 1)),
				Needed: uint32(g.n("needed", 0, 2)), Of: uint32(g.n("of", 0, 3)), NotifyURL: pick(g, "url", "", "https://hooks.example/1"), Notices: 7,
			}
		case 6:
			s := g.startOf(g.core())
			f.Call, f.Async = &s, g.yes("async")
		default:
			f.Event = pick(g, "event", "go", "stop")
		}
		a.Effects = append(a.Effects, f)
	}
	return a
}

// checkExecutions holds what one state cannot show: frames are replaced and never go back (I19), what is over stays, unless it was
// retried, and an answer to a decision stays as it is (I21).
func checkExecutions(t *rapid.T, before, after *fsm.View) {
	for _, tenant := range []string{"acme", "umbrella"} {
		for old := range before.ExecutionsOf(tenant, 0) {
			e, ok := after.Execution(old.ID)
			if !ok {
				require.True(t, old.Status.Over(), "%s was forgotten while it was %s", old.ID, old.Status)
				continue
			}
			require.GreaterOrEqual(t, e.Seq, old.Seq, "I19: %s", e.ID)
			if old.Status.Over() && e.Retries == old.Retries {
				require.Equal(t, []any{old.Status, old.Seq, old.FinishedAt}, []any{e.Status, e.Seq, e.FinishedAt}, "%s was over", e.ID)
			}
		}
		for old := range before.DecisionsOf(tenant, false, 0) {
			d, ok := after.Decision(old.ID)
			if ok {
				require.GreaterOrEqual(t, d.Notices, old.Notices, "the notices of %s", d.ID)
			}
			if ok && old.Status != executions.Pending {
				require.Equal(t, []any{old.Status, old.Resolution, old.ResolvedBy, old.ResolvedAt}, []any{d.Status, d.Resolution, d.ResolvedBy, d.ResolvedAt}, "I21: %s", d.ID)
			}
		}
	}
}

// hosted adds a Core with an execution that has waited, a decision and events to a story.
func (w *world) hosted() {
	core := w.core("triage")
	id := w.start(core)
	w.step(executionverbs.Advance{Execution: id, Outcome: executionverbs.GoesOn, Events: []executions.Happening{
		{Type: executionverbs.TypeEntered, Path: "ask", Kind: "checkpoint"}, {Type: executionverbs.TypeBlockFail, Path: "ask", Err: &executions.Failure{Code: "X", Message: "no"}},
	}, Effects: []executionverbs.Effect{toURL(aQuestion(1)), {Wait: 2, Event: "go"}, {Wait: 3, Timer: true, After: 60e9}, aJob(4)}})
	d := w.execution(id).Waits[0].Decision
	w.do(
		executionverbs.ResolveDecision{Decision: d, Tenant: "acme", User: "ann", Resolution: "yes", Comment: "fine"},
		executionverbs.SendEvent{Core: core, Tenant: "acme", Name: "go", Data: []byte("d")},
		executionverbs.NoteNotices{Notes: []executionverbs.Note{{Decision: d, Number: 1, Over: true}, {Decision: d, Number: 2, Err: "it answered 500"}}},
	)
}
