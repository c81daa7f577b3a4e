package flows

import (
	"fmt"
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	recordFlow       = 150
	recordVersion    = 151
	recordACL        = 152
	recordDeployment = 153
	recordGone       = 154
)

// Library is the part of the state that has the flows. Its exported methods read; what changes it is functions, so that a view offers
// none of it.
type Library struct {
	flows       kernel.Table[ident.Flow, *Flow]
	versions    kernel.Table[versionKey, *Version]
	acls        kernel.Table[aclKey, *ACL]
	deployments kernel.Table[deploymentKey, *Deployment]
	byTenant    kernel.Index[ofTenant]
	byKey       kernel.Index[ofKey]
	// deleted has the deleted flows by the time at which they go.
	deleted kernel.Index[goesAt]
	uses    kernel.Index[Use]
	// gone has the versions that went, and whose content is in the archive.
	gone kernel.Table[versionKey, *Gone]
	// unarchived has the versions whose content the archive does not have.
	unarchived kernel.Index[versionKey]
}

type versionKey struct {
	flow   ident.Flow
	number uint32
}

type aclKey struct {
	flow ident.Flow
	id   ident.FlowACL
}

type deploymentKey struct {
	flow ident.Flow
	id   ident.Deployment
}

type ofTenant struct {
	tenant string
	id     ident.Flow
}

type ofKey struct {
	tenant, key string
	id          ident.Flow
}

type goesAt struct {
	at int64
	id ident.Flow
}

// Use is how much the flows of a tenant take, with the deleted ones that are still kept.
type Use struct {
	tenant string
	Flows  int
	// Bytes of compressed content.
	Bytes int
}

// View reads the flows of a frozen state.
type View struct{ *Library }

// ViewOf returns the flows of a view.
func ViewOf(v *kernel.View) View { return View{Of(v.State())} }

// Of returns the flows of a state.
func Of(s *kernel.State) *Library { return kernel.PartOf[*Library](s) }

func open(*kernel.State) kernel.Part {
	return &Library{
		flows:    kernel.NewTable[ident.Flow, *Flow](recordFlow, func(a, b ident.Flow) bool { return a < b }),
		versions: kernel.NewTable[versionKey, *Version](recordVersion, byNumber),
		acls: kernel.NewTable[aclKey, *ACL](recordACL, func(a, b aclKey) bool {
			return a.flow < b.flow || a.flow == b.flow && a.id < b.id
		}),
		deployments: kernel.NewTable[deploymentKey, *Deployment](recordDeployment, func(a, b deploymentKey) bool {
			return a.flow < b.flow || a.flow == b.flow && a.id < b.id
		}),
		byTenant: kernel.NewIndex(func(a, b ofTenant) bool {
			return a.tenant < b.tenant || a.tenant == b.tenant && a.id < b.id
		}),
		byKey: kernel.NewIndex(func(a, b ofKey) bool {
			return a.tenant < b.tenant || a.tenant == b.tenant && a.key < b.key
		}),
		deleted: kernel.NewIndex(func(a, b goesAt) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		uses:    kernel.NewIndex(func(a, b Use) bool { return a.tenant < b.tenant }),

		gone:       kernel.NewTable[versionKey, *Gone](recordGone, byNumber),
		unarchived: kernel.NewIndex(byNumber),
	}
}

func byNumber(a, b versionKey) bool {
	return a.flow < b.flow || a.flow == b.flow && a.number < b.number
}

// Freeze implements kernel.Part.
func (l *Library) Freeze(*kernel.State) kernel.Part {
	return &Library{
		flows: l.flows.Freeze(), versions: l.versions.Freeze(), acls: l.acls.Freeze(), deployments: l.deployments.Freeze(),
		byTenant: l.byTenant.Freeze(), byKey: l.byKey.Freeze(), deleted: l.deleted.Freeze(), uses: l.uses.Freeze(),
		gone: l.gone.Freeze(), unarchived: l.unarchived.Freeze(),
	}
}

// Put puts a flow in, in the place of the one of its id.
func Put(l *Library, f *Flow) {
	if old, ok := l.flows.Get(f.ID); ok {
		l.underive(old)
	}
	l.flows.Put(f.ID, f)
	l.byTenant.Put(ofTenant{f.Tenant, f.ID})
	if f.Key != "" {
		l.byKey.Put(ofKey{f.Tenant, f.Key, f.ID})
	}
	if f.DeletedAt != 0 {
		l.deleted.Put(goesAt{f.DeletedAt + KeepDeleted, f.ID})
	}
	l.use(f.Tenant, 1, 0)
}

func (l *Library) underive(f *Flow) {
	l.byTenant.Delete(ofTenant{f.Tenant, f.ID})
	if f.Key != "" {
		l.byKey.Delete(ofKey{tenant: f.Tenant, key: f.Key})
	}
	if f.DeletedAt != 0 {
		l.deleted.Delete(goesAt{f.DeletedAt + KeepDeleted, f.ID})
	}
	l.use(f.Tenant, -1, 0)
}

func (l *Library) use(tenant string, flows, bytes int) {
	u := l.FlowUse(tenant)
	u.Flows += flows
	u.Bytes += bytes
	if u.Flows == 0 && u.Bytes == 0 {
		l.uses.Delete(u)
		return
	}
	l.uses.Put(u)
}

// Remove takes a flow out, with all that belongs to it.
func Remove(l *Library, f *Flow, now int64) {
	for v := range l.FlowVersions(f.ID) {
		RemoveVersion(l, v, now)
	}
	for a := range l.FlowACLs(f.ID) {
		RemoveACL(l, a)
	}
	for d := range l.FlowDeployments(f.ID) {
		RemoveDeployment(l, d)
	}
	l.underive(f)
	l.flows.Delete(f.ID)
}

// PutVersion puts a version of a flow in that is there, in the place of the one of its number.
func PutVersion(l *Library, v *Version) error {
	f, ok := l.flows.Get(v.Flow)
	if !ok {
		return fmt.Errorf("version %d is of the flow %s, which is not there", v.Number, v.Flow)
	}
	key := versionKey{v.Flow, v.Number}
	if old, ok := l.versions.Get(key); ok {
		l.use(f.Tenant, 0, -old.Content.Bytes())
	}
	l.versions.Put(key, v)
	l.use(f.Tenant, 0, v.Content.Bytes())
	if v.Archived {
		l.unarchived.Delete(key)
	} else {
		l.unarchived.Put(key)
	}
	return nil
}

// RemoveVersion takes a version out. A content that the archive has is to go from there.
func RemoveVersion(l *Library, v *Version, now int64) {
	key := versionKey{v.Flow, v.Number}
	l.versions.Delete(key)
	l.unarchived.Delete(key)
	f, ok := l.flows.Get(v.Flow)
	if !ok {
		return
	}
	l.use(f.Tenant, 0, -v.Content.Bytes())
	if v.Archived && l.gone.Len() < MaxGone {
		PutGone(l, &Gone{Flow: v.Flow, Number: v.Number, Name: v.Name, Tenant: f.Tenant, At: now})
	}
}

// PutGone puts a version in that went.
func PutGone(l *Library, g *Gone) { l.gone.Put(versionKey{g.Flow, g.Number}, g) }

// Forget takes a version out that went, when the archive has its content no more.
func Forget(l *Library, flow ident.Flow, number uint32) { l.gone.Delete(versionKey{flow, number}) }

// GoneContents iterates the versions that went, and whose content is in the archive.
func (l *Library) GoneContents() iter.Seq[*Gone] { return l.gone.Rows() }

// Archive notes that the archive has the content of a version. The content goes out of the state unless the version is the current one.
func Archive(l *Library, v *Version) {
	row := *v
	row.Archived = true
	if f, ok := l.flows.Get(v.Flow); ok && f.Number != v.Number {
		row.Content.drop()
	}
	_ = PutVersion(l, &row) // The flow is there: its version is.
}

// Supersede lets the content of a version that is not the current one any more go out of the state, if the archive has it.
func Supersede(l *Library, flow ident.Flow, number uint32) {
	v, ok := l.versions.Get(versionKey{flow, number})
	if !ok || !v.Archived || len(v.Content.Packed) == 0 {
		return
	}
	row := *v
	row.Content.drop()
	_ = PutVersion(l, &row) // The flow is there: its version is.
}

// Unarchived lists versions whose content the archive does not have.
func (l *Library) Unarchived(most int) (all []*Version) {
	for key := range l.unarchived.All() {
		if len(all) == most {
			break
		}
		if v, ok := l.versions.Get(key); ok {
			all = append(all, v)
		}
	}
	return all
}

// PutACL puts a right in.
func PutACL(l *Library, a *ACL) { l.acls.Put(aclKey{a.Flow, a.ID}, a) }

// RemoveACL takes a right out.
func RemoveACL(l *Library, a *ACL) { l.acls.Delete(aclKey{a.Flow, a.ID}) }

// PutDeployment puts a deployment in.
func PutDeployment(l *Library, d *Deployment) { l.deployments.Put(deploymentKey{d.Flow, d.ID}, d) }

// RemoveDeployment takes a deployment out.
func RemoveDeployment(l *Library, d *Deployment) { l.deployments.Delete(deploymentKey{d.Flow, d.ID}) }

// Flow returns a flow by its id; a deleted one, too, while it is kept.
func (l *Library) Flow(id ident.Flow) (*Flow, bool) { return l.flows.Get(id) }

// FlowOfKey returns the flow of a tenant that was made with an idempotency key.
func (l *Library) FlowOfKey(tenant, key string) (*Flow, bool) {
	found, ok := l.byKey.Get(ofKey{tenant: tenant, key: key})
	if !ok {
		return nil, false
	}
	return l.flows.Get(found.id)
}

// FlowsOf iterates the flows of a tenant, the newest first; deleted ones, too.
func (l *Library) FlowsOf(tenant string) iter.Seq[*Flow] {
	return func(yield func(*Flow) bool) {
		l.byTenant.DescendFrom(ofTenant{tenant, ^ident.Flow(0)}, func(o ofTenant) bool {
			if o.tenant != tenant {
				return false
			}
			f, _ := l.flows.Get(o.id)
			return yield(f)
		})
	}
}

// Flows iterates the flows of all tenants.
func (l *Library) Flows() iter.Seq[*Flow] { return l.flows.Rows() }

// FlowUse is how much the flows of a tenant take.
func (l *Library) FlowUse(tenant string) Use {
	if u, ok := l.uses.Get(Use{tenant: tenant}); ok {
		return u
	}
	return Use{tenant: tenant}
}

// FlowVersion returns a version of a flow by its number.
func (l *Library) FlowVersion(id ident.Flow, number uint32) (*Version, bool) {
	return l.versions.Get(versionKey{id, number})
}

// FlowVersions lists the versions of a flow that are kept, the oldest first.
func (l *Library) FlowVersions(id ident.Flow) iter.Seq[*Version] {
	return collect(l.versions.RowsFrom(versionKey{flow: id}), func(v *Version) bool { return v.Flow == id })
}

// FlowACLs lists the rights on a flow, in the order in which they were granted.
func (l *Library) FlowACLs(id ident.Flow) iter.Seq[*ACL] {
	return collect(l.acls.RowsFrom(aclKey{flow: id}), func(a *ACL) bool { return a.Flow == id })
}

// FlowACL returns a right on a flow by its id.
func (l *Library) FlowACL(flow ident.Flow, id ident.FlowACL) (*ACL, bool) {
	return l.acls.Get(aclKey{flow, id})
}

// FlowDeployments lists the deployments of a flow that are kept, the oldest first.
func (l *Library) FlowDeployments(id ident.Flow) iter.Seq[*Deployment] {
	return collect(l.deployments.RowsFrom(deploymentKey{flow: id}), func(d *Deployment) bool { return d.Flow == id })
}

// NextGone is the deleted flow that goes first, and when.
func (l *Library) NextGone() (at int64, f *Flow, ok bool) {
	next, ok := l.deleted.Min()
	if !ok {
		return 0, nil, false
	}
	f, ok = l.flows.Get(next.id)
	return next.at, f, ok
}

// collect is the rows up to the first that does not belong. It reads them before the first is yielded, so that the caller may take
// them out.
func collect[R any](rows iter.Seq[R], belongs func(R) bool) iter.Seq[R] {
	var all []R
	for r := range rows {
		if !belongs(r) {
			break
		}
		all = append(all, r)
	}
	return func(yield func(R) bool) {
		for _, r := range all {
			if !yield(r) {
				return
			}
		}
	}
}
