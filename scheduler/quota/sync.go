package quota

import (
	"fmt"
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// noting is a View that lists the tenants that have changed. *fsm.View implements it.
type noting interface {
	View
	TenantsChanged() changes.Mark[string]
	BudgetsChanged() changes.Mark[string]
}

// Sync reads all that the room has again, from another view; of tenants only those that have changed, or whose room the
// pass has taken. Limits that were made before stay valid.
func (r *Room) Sync(v View) {
	models := r.models
	r.view, r.now, r.models, r.node = v, v.Now(), nil, nil
	clear(r.limited)
	for name, l := range r.queues { // order-free: each is read by itself
		r.readLineage(name, l)
	}
	if n, lists := v.(noting); !lists || models != nil && !slices.Equal(models, r.readModels()) || !r.readChanged(n) {
		for _, t := range r.tenants { // order-free: each is read by itself
			r.readTenant(t)
		}
	}
	for id, a := range r.arrays { // order-free: each is read by itself
		r.readArray(id, a)
	}
	r.taken = r.taken[:0]
	r.noteMarks()
}

// readChanged reads the tenants that have changed. It returns false if the view does not know them.
func (r *Room) readChanged(v noting) bool {
	tenants, known := changes.Between(r.tenant, v.TenantsChanged())
	spent, also := changes.Between(r.budget, v.BudgetsChanged())
	if !known || !also {
		return false
	}
	for _, t := range r.taken {
		r.readTenant(t)
	}
	for _, all := range []iter.Seq[string]{tenants, spent} {
		for name := range all {
			if t := r.tenants[name]; t != nil {
				r.readTenant(t)
			}
		}
	}
	return true
}

// noteMarks takes down up to where changes of tenants have been read.
func (r *Room) noteMarks() {
	if n, lists := r.view.(noting); lists {
		r.tenant, r.budget = n.TenantsChanged(), n.BudgetsChanged()
	}
}

// Check compares the room with the view that it was last synced to, but for what was taken since. The error names a
// tenant or an array of which it has something else.
func (r *Room) Check(v View) error {
	fresh := New(v)
	for _, t := range r.tenants { // order-free: any
		is := &tenantRoom{name: t.name}
		fresh.readTenant(is)
		if t.quota != is.quota || t.budget != is.budget || !t.taken && (t.usage.GPUMilli != is.usage.GPUMilli || t.usage.Running != is.usage.Running || t.slack != is.slack) {
			return fmt.Errorf("tenant %s: the room has other figures of it", t.name)
		}
		for name, milli := range t.held.milli { // order-free: any
			if now := v.HeldOfType(t.name, name); !t.taken && milli != now {
				return fmt.Errorf("tenant %s: the room has %d thousandths of %s GPUs, and not %d", t.name, milli, name, now)
			}
		}
	}
	return nil
}
