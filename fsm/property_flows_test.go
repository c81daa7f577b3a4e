package fsm_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// designing draws a command about flows that mostly makes sense.
func (g *generator) designing() kernel.Command {
	f := g.flow()
	caller := flows.Caller{Tenant: pick(g, "tenant", f.Tenant, f.Tenant, "umbrella"), User: pick(g, "user", f.Owner, "ann", "bob"), Admin: g.n("admin", 0, 3) == 0}
	if g.yes("in a group") {
		caller.Groups = []string{"ml"}
	}
	switch g.n("flow command", 0, 10) {
	case 0, 1, 2:
		return flowverbs.PutFlow{
			Caller: caller, Name: ptr("n"), Content: content(pick(g, "content", "a", "b")), Version: pick(g, "first", "0.1.0", "1.0.0", "x"),
			Key: pick(g, "key", "", "", "k"), Fingerprint: uint64(g.n("print", 0, 1)), Actor: g.actor(),
		}
	case 3:
		return flowverbs.PutFlow{ID: f.ID, Caller: caller, Description: ptr(pick(g, "description", "", "d")), Actor: g.actor()}
	case 4, 5, 6:
		return flowverbs.SaveVersion{
			Flow: f.ID, Caller: caller, BasedOn: pick(g, "based on", f.Version, f.Version, "0.1.0"), Content: content(pick(g, "content", "a", "b", "c")), Actor: g.actor(),
		}
	case 7:
		for a := range g.w.m.View().FlowACLs(f.ID) {
			if g.yes("change") {
				return flowverbs.PutACL{Flow: f.ID, ACL: a.ID, Caller: caller, Right: flows.Right(g.n("right", 0, 4)), Actor: g.actor()}
			}
			if g.yes("revoke") {
				return flowverbs.DeleteACL{Flow: f.ID, ACL: a.ID, Caller: caller, Actor: g.actor()}
			}
		}
		return flowverbs.PutACL{
			Flow: f.ID, Caller: caller, PrincipalType: flows.PrincipalType(g.n("type", 1, 2)), Principal: pick(g, "principal", "ann", "bob", "ml"),
			Right: flows.Right(g.n("right", 0, 4)), Actor: g.actor(),
		}
	case 10:
		return g.archiving()
	case 8:
		return flowverbs.DeleteFlow{Flow: f.ID, Caller: caller, Actor: g.actor()}
	}
	return flowverbs.RecordDeployment{
		Flow: f.ID, Tenant: caller.Tenant, User: "ann", Version: pick(g, "version", f.Version, "0.1.0"), Core: g.core(), CoreVersion: 1, Actor: g.actor(),
	}
}

func (g *generator) archiving() kernel.Command {
	if g.yes("forget") {
		var c flowverbs.ForgetContents
		for gone := range g.w.m.View().GoneContents() {
			c.Versions = append(c.Versions, flowverbs.ArchivedVersion{Flow: gone.Flow, Number: gone.Number})
		}
		return c
	}
	c := flowverbs.ArchiveVersions{Versions: []flowverbs.ArchivedVersion{{Flow: 1, Number: 9, Digest: "gone"}}}
	for f := range g.w.m.View().Flows() {
		for v := range g.w.m.View().FlowVersions(f.ID) {
			c.Versions = append(c.Versions, flowverbs.ArchivedVersion{Flow: f.ID, Number: v.Number, Digest: pick(g, "digest", v.Content.Digest, v.Content.Digest, "other")})
		}
	}
	return c
}

func (g *generator) flow() *flows.Flow {
	all := []*flows.Flow{{ID: 1, Tenant: "acme", Owner: "ann", Version: "0.1.0"}}
	for f := range g.w.m.View().Flows() {
		all = append(all, f, f)
	}
	return pick(g, "flow", all...)
}

// checkFlows holds what one state cannot show of flows: a version never changes, numbers of versions only grow, and a flow that goes
// was deleted.
func checkFlows(t *rapid.T, before, after *fsm.View) {
	for old := range before.Flows() {
		f, ok := after.Flow(old.ID)
		if !ok {
			require.NotZero(t, old.DeletedAt, "%s went without being deleted", old.ID)
			continue
		}
		require.GreaterOrEqual(t, f.Number, old.Number, "I24: %s", f.ID)
		require.Equal(t, []any{old.Tenant, old.Owner}, []any{f.Tenant, f.Owner})
		for v := range before.FlowVersions(old.ID) {
			if now, kept := after.FlowVersion(old.ID, v.Number); kept {
				require.Equal(t, []any{v.Name, v.User, v.CreatedAt, v.Content.Digest, v.Content.Size, v.Content.Bytes()},
					[]any{now.Name, now.User, now.CreatedAt, now.Content.Digest, now.Content.Size, now.Content.Bytes()}, "I24: %s", f.ID)
				require.False(t, v.Archived && !now.Archived || len(now.Content.Packed) == 0 && !now.Archived, "a content is lost: %s", f.ID)
			}
		}
	}
}

// designs adds flows to a story: one that was saved and deployed, on which somebody has a right, one whose first version went, and one
// that was deleted.
func (w *world) designs() ident.Flow {
	f := w.flow("one")
	w.do(flowverbs.SaveVersion{Flow: f.ID, Caller: ann, BasedOn: "0.1.0", Content: content("two"), Description: ptr("sorts tickets")})
	w.do(flowverbs.PutACL{Flow: f.ID, Caller: ann, PrincipalType: flows.Group, Principal: "ml", Right: flows.ToEdit})
	w.deployFlow(f.ID, "0.1.0")
	for v := range w.m.View().FlowVersions(f.ID) {
		w.do(flowverbs.ArchiveVersions{Versions: []flowverbs.ArchivedVersion{{Flow: f.ID, Number: v.Number, Digest: v.Content.Digest}}})
	}
	many := w.flow("0")
	w.do(flowverbs.ArchiveVersions{Versions: []flowverbs.ArchivedVersion{{Flow: many.ID, Number: 1, Digest: content("0").Digest}}})
	for i := range flows.MaxVersions {
		w.saveFlow(many.ID, fmt.Sprintf("0.1.%d", i), fmt.Sprint(i+1))
	}
	w.do(flowverbs.ForgetContents{Versions: []flowverbs.ArchivedVersion{{Flow: f.ID, Number: 9}}})
	w.do(flowverbs.DeleteFlow{Flow: w.flow("gone").ID, Caller: ann})
	return f.ID
}
