package flows

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// check reports what does not hold of the flows and always should.
func (l *Library) check(report kernel.Report) {
	keys, deleted := 0, 0
	uses := map[string]Use{}
	for f := range l.flows.Rows() {
		l.checkFlow(f, report)
		if f.Key != "" {
			keys++
			if found, ok := l.byKey.Get(ofKey{tenant: f.Tenant, key: f.Key}); !ok || found.id != f.ID {
				report("the flow %s is not found by its key", f.ID)
			}
		}
		if f.DeletedAt != 0 {
			if deleted++; !l.deleted.Has(goesAt{f.DeletedAt + KeepDeleted, f.ID}) {
				report("the flow %s was deleted, and never goes", f.ID)
			}
		}
		u := uses[f.Tenant]
		u.tenant = f.Tenant
		u.Flows++
		uses[f.Tenant] = u
	}
	for v := range l.versions.Rows() {
		f, ok := l.flows.Get(v.Flow)
		if !ok {
			report("version %d is of the flow %s, which is not there", v.Number, v.Flow)
			continue
		}
		if _, ok := parseVersion(v.Name); !ok || v.Number == 0 || v.Number > f.Number {
			report("I24: the flow %s has version %d, %q, and is at %d", f.ID, v.Number, v.Name, f.Number)
		}
		if n := v.Content.Bytes(); v.Content.Digest == "" || n == 0 || n > MaxStored || v.Content.Size > MaxContent {
			report("version %d of the flow %s has %d bytes of content, packed %d", v.Number, f.ID, v.Content.Size, n)
		}
		if dropped := v.Content.Dropped != 0; dropped && (!v.Archived || v.Number == f.Number || len(v.Content.Packed) > 0) {
			report("the content of version %d of the flow %s, which is at %d, is in the archive alone: archived %t", v.Number, f.ID, f.Number, v.Archived)
		}
		if v.Archived == l.unarchived.Has(versionKey{v.Flow, v.Number}) {
			report("version %d of the flow %s is archived: %t, and its list says otherwise", v.Number, f.ID, v.Archived)
		}
		u := uses[f.Tenant]
		u.Bytes += v.Content.Bytes()
		uses[f.Tenant] = u
	}
	l.checkRest(report)
	if n := l.flows.Len(); n != l.byTenant.Len() || keys != l.byKey.Len() || deleted != l.deleted.Len() || len(uses) != l.uses.Len() {
		report("%d flows, %d keys, %d deleted flows and %d tenants are counted, and there are %d, %d, %d and %d",
			l.byTenant.Len(), l.byKey.Len(), l.deleted.Len(), l.uses.Len(), n, keys, deleted, len(uses))
	}
	for u := range l.uses.All() {
		if u != uses[u.tenant] {
			report("the flows of %q are counted as %d with %d bytes, and are %d with %d", u.tenant, u.Flows, u.Bytes, uses[u.tenant].Flows, uses[u.tenant].Bytes)
		}
		if u.Flows > MaxOfTenant || u.Bytes > MaxBytesOfTenant {
			report("%q has %d flows with %d bytes", u.tenant, u.Flows, u.Bytes)
		}
	}
}

func (l *Library) checkFlow(f *Flow, report kernel.Report) {
	if f.Tenant == "" || f.Name == "" {
		report("the flow %s of %q has the name %q", f.ID, f.Tenant, f.Name)
	}
	if !l.byTenant.Has(ofTenant{f.Tenant, f.ID}) {
		report("the flow %s is not listed for its tenant", f.ID)
	}
	if v, ok := l.FlowVersion(f.ID, f.Number); !ok || v.Name != f.Version {
		report("the flow %s is at version %d, %q, which is not there", f.ID, f.Number, f.Version)
	}
	old, deployments := 0, 0
	used := map[uint32]bool{}
	for d := range l.FlowDeployments(f.ID) {
		deployments++
		used[d.Number] = true
		if v, ok := l.FlowVersion(f.ID, d.Number); !ok || v.Name != d.Version {
			report("the flow %s was deployed at version %d, %q, which is not there", f.ID, d.Number, d.Version)
		}
	}
	newest := f.Number - min(f.Number, MaxVersions)
	for v := range l.FlowVersions(f.ID) {
		if v.Number <= newest && !used[v.Number] {
			old++
		}
	}
	if old > 0 || deployments > MaxDeployments {
		report("the flow %s has %d versions that are old and not deployed, and %d deployments", f.ID, old, deployments)
	}
	acls := map[principal]bool{}
	for a := range l.FlowACLs(f.ID) {
		acls[principal{a.PrincipalType, a.Principal}] = true
	}
	if n := l.countACLs(f.ID); n != len(acls) || n > MaxACLs {
		report("the flow %s has %d rights, of %d users and groups", f.ID, n, len(acls))
	}
}

type principal struct {
	kind PrincipalType
	id   string
}

func (l *Library) countACLs(id ident.Flow) (n int) {
	for range l.FlowACLs(id) {
		n++
	}
	return n
}

func (l *Library) checkRest(report kernel.Report) {
	for g := range l.gone.Rows() {
		if _, ok := l.FlowVersion(g.Flow, g.Number); ok || g.Tenant == "" || g.Name == "" {
			report("the content of version %d of the flow %s, %q of %q, is to go from the archive, and the version is there: %t", g.Number, g.Flow, g.Name, g.Tenant, ok)
		}
	}
	for a := range l.acls.Rows() {
		if _, ok := l.flows.Get(a.Flow); !ok {
			report("the right %s is on the flow %s, which is not there", a.ID, a.Flow)
		}
		if a.Principal == "" || !a.Right.Valid() || a.PrincipalType != User && a.PrincipalType != Group {
			report("the right %s is %d for %q of type %d", a.ID, a.Right, a.Principal, a.PrincipalType)
		}
	}
	for d := range l.deployments.Rows() {
		if _, ok := l.flows.Get(d.Flow); !ok {
			report("the deployment %s is of the flow %s, which is not there", d.ID, d.Flow)
		}
		if d.Core == 0 {
			report("the deployment %s made no Core", d.ID)
		}
	}
}
