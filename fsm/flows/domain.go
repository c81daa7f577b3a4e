// Package flows has the programs that people draw (flows), their versions, the rights that users and groups have on them, and their
// deployments, as rows of the state.
//
// Guarantees. A version of a flow never changes, and the numbers of versions only grow (I24). The current version of a flow is there, and
// so are those of the deployments that are listed. A flow belongs to one tenant; the right of a caller on it is decided in one place,
// RightOn. The content is opaque here.
package flows

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// maxPerTick bounds the deleted flows that go in one Tick.
const maxPerTick = 10

// Domain is all that flows are to the state. verbs are the commands that change them.
func Domain(verbs []kernel.CommandDef) kernel.Domain {
	return kernel.Domain{
		Name: "flows", Open: open, Commands: verbs,
		Records: []kernel.RecordDef{
			kernel.Rows(recordFlow, "flow", func(s *kernel.State) *kernel.Table[ident.Flow, *Flow] { return &Of(s).flows },
				func(s *kernel.State, f *Flow) error {
					f.Tenant, f.Owner = s.Intern(f.Tenant), s.Intern(f.Owner)
					Put(Of(s), f)
					return nil
				}),
			kernel.Rows(recordVersion, "flow version", func(s *kernel.State) *kernel.Table[versionKey, *Version] { return &Of(s).versions },
				func(s *kernel.State, v *Version) error { return PutVersion(Of(s), v) }),
			kernel.Rows(recordACL, "flow right", func(s *kernel.State) *kernel.Table[aclKey, *ACL] { return &Of(s).acls },
				func(s *kernel.State, a *ACL) error { PutACL(Of(s), a); return nil }),
			kernel.Rows(recordDeployment, "flow deployment", func(s *kernel.State) *kernel.Table[deploymentKey, *Deployment] { return &Of(s).deployments },
				func(s *kernel.State, d *Deployment) error { PutDeployment(Of(s), d); return nil }),
			kernel.Rows(recordGone, "archived content of a flow", func(s *kernel.State) *kernel.Table[versionKey, *Gone] { return &Of(s).gone },
				func(s *kernel.State, g *Gone) error {
					g.Tenant = s.Intern(g.Tenant)
					PutGone(Of(s), g)
					return nil
				}),
		},
		Due: func(s *kernel.State) (int64, bool) {
			at, _, ok := Of(s).NextGone()
			return at, ok
		},
		Tick:  tick,
		Check: func(s *kernel.State, report kernel.Report) { Of(s).check(report) },
	}
}

// tick removes flows that were deleted long ago.
func tick(tx *kernel.Tx) (more bool) {
	l := Of(tx.State)
	for range maxPerTick {
		at, f, ok := l.NextGone()
		if !ok || at > tx.Now() {
			return false
		}
		Remove(l, f, tx.Now())
	}
	at, _, ok := l.NextGone()
	return ok && at <= tx.Now()
}
