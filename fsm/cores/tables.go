// Package cores has the hosted programs (Cores) and their versions, as rows of the state.
//
// Guarantees. A slug names one Core of a tenant. Versions never change, and one that a Core runs is there. A Core moves between its
// states as the table in lifecycle.go says, and otherwise not at all.
package cores

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	recordCore    = 140
	recordVersion = 141
)

// Shelf is the part of the state that has the Cores. Its exported methods read; what changes it is functions, so that a view offers
// none of it.
type Shelf struct {
	cores    kernel.Table[ident.Core, *Core]
	versions kernel.Table[versionKey, *Version]
	bySlug   kernel.Index[slugOf]
	// moving has the Cores that the leader has something to do for: those that start, restart or stop.
	moving kernel.Index[ident.Core]
}

type versionKey struct {
	core   ident.Core
	number uint32
}

type slugOf struct {
	tenant, slug string
	id           ident.Core
}

// View reads the Cores of a frozen state.
type View struct{ *Shelf }

// ViewOf returns the Cores of a view.
func ViewOf(v *kernel.View) View { return View{Of(v.State())} }

// Of returns the Cores of a state.
func Of(s *kernel.State) *Shelf { return kernel.PartOf[*Shelf](s) }

func open(*kernel.State) kernel.Part {
	return &Shelf{
		cores: kernel.NewTable[ident.Core, *Core](recordCore, func(a, b ident.Core) bool { return a < b }),
		versions: kernel.NewTable[versionKey, *Version](recordVersion, func(a, b versionKey) bool {
			return a.core < b.core || a.core == b.core && a.number < b.number
		}),
		bySlug: kernel.NewIndex(func(a, b slugOf) bool {
			return a.tenant < b.tenant || a.tenant == b.tenant && a.slug < b.slug
		}),
		moving: kernel.NewIndex(func(a, b ident.Core) bool { return a < b }),
	}
}

// Freeze implements kernel.Part.
func (t *Shelf) Freeze(*kernel.State) kernel.Part {
	return &Shelf{cores: t.cores.Freeze(), versions: t.versions.Freeze(), bySlug: t.bySlug.Freeze(), moving: t.moving.Freeze()}
}

// Domain is all that Cores are to the state. verbs are the commands that change them.
func Domain(verbs []kernel.CommandDef) kernel.Domain {
	return kernel.Domain{
		Name: "cores", Open: open, Commands: verbs,
		Records: []kernel.RecordDef{
			kernel.Rows(recordCore, "core", func(s *kernel.State) *kernel.Table[ident.Core, *Core] { return &Of(s).cores },
				func(s *kernel.State, c *Core) error {
					c.Tenant = s.Intern(c.Tenant)
					Put(Of(s), c)
					return nil
				}),
			kernel.Rows(recordVersion, "core version", func(s *kernel.State) *kernel.Table[versionKey, *Version] { return &Of(s).versions },
				func(s *kernel.State, v *Version) error { PutVersion(Of(s), v); return nil }),
		},
		Check: func(s *kernel.State, report kernel.Report) { Of(s).check(report) },
	}
}

// Put puts a Core in, in the place of the one of its id.
func Put(t *Shelf, c *Core) {
	if old, ok := t.cores.Get(c.ID); ok {
		t.underive(old)
	}
	t.cores.Put(c.ID, c)
	t.bySlug.Put(slugOf{c.Tenant, c.Slug, c.ID})
	if c.Status.moving() {
		t.moving.Put(c.ID)
	}
}

func (s Status) moving() bool { return s == Starting || s == Restarting || s == Stopping }

func (t *Shelf) underive(c *Core) {
	t.bySlug.Delete(slugOf{tenant: c.Tenant, slug: c.Slug})
	if c.Status.moving() {
		t.moving.Delete(c.ID)
	}
}

// Remove takes a Core out, with its versions.
func Remove(t *Shelf, c *Core) {
	t.underive(c)
	t.cores.Delete(c.ID)
	for v := range t.Versions(c.ID) {
		t.versions.Delete(versionKey{c.ID, v.Number})
	}
}

// PutVersion puts a version in.
func PutVersion(t *Shelf, v *Version) { t.versions.Put(versionKey{v.Core, v.Number}, v) }

// RemoveVersion takes a version out.
func RemoveVersion(t *Shelf, v *Version) { t.versions.Delete(versionKey{v.Core, v.Number}) }

// Core returns a Core by its id.
func (t *Shelf) Core(id ident.Core) (*Core, bool) { return t.cores.Get(id) }

// CoreOf returns a Core of a tenant by its slug.
func (t *Shelf) CoreOf(tenant, slug string) (*Core, bool) {
	found, ok := t.bySlug.Get(slugOf{tenant: tenant, slug: slug})
	if !ok {
		return nil, false
	}
	return t.cores.Get(found.id)
}

// CoresOf iterates the Cores of a tenant whose slugs come after one, by slug.
func (t *Shelf) CoresOf(tenant, after string) iter.Seq[*Core] {
	return func(yield func(*Core) bool) {
		t.bySlug.AscendFrom(slugOf{tenant: tenant, slug: after}, func(s slugOf) bool {
			if s.tenant != tenant {
				return false
			}
			if s.slug == after {
				return true
			}
			c, _ := t.cores.Get(s.id)
			return yield(c)
		})
	}
}

// Cores iterates the Cores of all tenants.
func (t *Shelf) Cores() iter.Seq[*Core] { return t.cores.Rows() }

// MovingCores iterates the Cores that start, restart or stop.
func (t *Shelf) MovingCores() iter.Seq[*Core] {
	return func(yield func(*Core) bool) {
		for id := range t.moving.All() {
			if c, _ := t.cores.Get(id); !yield(c) {
				return
			}
		}
	}
}

// CoreVersion returns a version of a Core.
func (t *Shelf) CoreVersion(id ident.Core, number uint32) (*Version, bool) {
	return t.versions.Get(versionKey{id, number})
}

// Versions lists the versions of a Core, the oldest first.
func (t *Shelf) Versions(id ident.Core) iter.Seq[*Version] {
	var all []*Version
	for v := range t.versions.RowsFrom(versionKey{core: id}) {
		if v.Core != id {
			break
		}
		all = append(all, v)
	}
	return func(yield func(*Version) bool) {
		for _, v := range all {
			if !yield(v) {
				return
			}
		}
	}
}

// check reports what does not hold of the Cores.
func (t *Shelf) check(report kernel.Report) {
	slugs, moving := 0, 0
	for c := range t.cores.Rows() {
		if c.Tenant == "" || c.Slug == "" || !c.Status.Valid() {
			report("the Core %s of %q has the slug %q and the status %d", c.ID, c.Tenant, c.Slug, c.Status)
		}
		if found, ok := t.bySlug.Get(slugOf{tenant: c.Tenant, slug: c.Slug}); !ok || found.id != c.ID {
			report("the Core %s is not found by its slug %q", c.ID, c.Slug)
		}
		slugs++
		if c.Status.moving() {
			moving++
			if !t.moving.Has(c.ID) {
				report("the Core %s is %s, and nothing is to be done for it", c.ID, c.Status)
			}
		}
		if c.Version != 0 {
			if _, ok := t.CoreVersion(c.ID, c.Version); !ok {
				report("the Core %s runs version %d, which is not there", c.ID, c.Version)
			}
		}
		if err := c.Reason.Valid(); err != nil {
			report("the Core %s: %v", c.ID, err)
		}
	}
	if slugs != t.bySlug.Len() || moving != t.moving.Len() {
		report("%d Cores have slugs and %d move, and %d and %d are listed", slugs, moving, t.bySlug.Len(), t.moving.Len())
	}
	for v := range t.versions.Rows() {
		if _, ok := t.cores.Get(v.Core); !ok {
			report("version %d is of the Core %s, which is not there", v.Number, v.Core)
		}
	}
}
