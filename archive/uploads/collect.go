package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/archive"
)

// Collection is the result of Collect.
type Collection struct {
	// Trees and Packs are how many were removed, Bytes their size, and Kept how many trees are left.
	Trees, Packs, Kept int
	Bytes              int64
}

// Jobs names the uploads that jobs need.
type Jobs interface {
	// EachUpload calls need for each upload that a job needs. It may name one twice.
	EachUpload(ctx context.Context, need func(tenant, id string)) error
}

// retiredFor is how long content stays retired before it is removed. It must be longer than any request that may have found the
// content before: a tree or a job that names it is seen before the content is removed.
const retiredFor = time.Hour

// Collect removes the trees that no job needs and that are older than Keep, and the packs that no tree needs.
//
// Nothing is removed at once, because a user may be about to submit a job with it. It is retired first: moved to where Load finds
// it, but neither Offer nor Confirm, which put it back. Only a later call removes it, if still no job names it. So any number of
// Keepers may collect while others take uploads.
func (k *Keeper) Collect(ctx context.Context, jobs Jobs) (Collection, error) {
	c := &collector{Keeper: k, now: time.Now(), needed: map[string]bool{}}
	if err := c.list(ctx); err != nil || len(c.folders) == 0 {
		return c.done, err
	}
	// Jobs are read after the listing: a job that is submitted in between has made its tree new, and moved it at most.
	err := jobs.EachUpload(ctx, func(tenant, id string) { c.needed[treeKey(tenant, id)] = true })
	if err != nil {
		return c.done, fmt.Errorf("read which uploads the jobs need: %w", err)
	}
	var faults []error
	for name, f := range c.folders {
		// A damaged object keeps the other tenants' uploads from nothing.
		err := c.trees(ctx, name, f)
		if err == nil {
			err = c.packs(ctx, name, f)
		}
		faults = append(faults, err)
	}
	c.forget()
	return c.done, errors.Join(faults...)
}

type collector struct {
	*Keeper
	now     time.Time
	needed  map[string]bool // keys of trees
	folders map[string]*folderList
	done    Collection
}

// folderList has the objects of a tenant, by their names.
type folderList struct {
	trees, retiredTrees, packs, index, retiredIndex map[string]archive.Object
}

// list lists all uploads.
func (c *collector) list(ctx context.Context) error {
	objects, err := c.cfg.Store.List(ctx, top)
	if err != nil {
		return err
	}
	c.folders = map[string]*folderList{}
	for _, o := range objects {
		tenant, rest, _ := strings.Cut(strings.TrimPrefix(o.Key, top), "/")
		name := top + tenant
		f := c.folders[name]
		if f == nil {
			f = &folderList{trees: objectsByName{}, retiredTrees: objectsByName{}, packs: objectsByName{}, index: objectsByName{}, retiredIndex: objectsByName{}}
			c.folders[name] = f
		}
		for prefix, into := range map[string]objectsByName{
			trees: f.trees, retired + trees: f.retiredTrees, packs: f.packs, index: f.index, retired + index: f.retiredIndex,
		} {
			if object, ok := strings.CutPrefix("/"+rest, prefix); ok {
				into[object] = o
			}
		}
	}
	return nil
}

type objectsByName = map[string]archive.Object

func (c *collector) old(o archive.Object, than time.Duration) bool {
	return c.now.Sub(o.Modified) >= than
}

// trees retires, puts back and removes trees of a tenant.
func (c *collector) trees(ctx context.Context, folder string, f *folderList) error {
	for name, o := range f.trees {
		if c.needed[o.Key] || !c.old(o, c.cfg.Keep) {
			c.done.Kept++
			continue
		}
		if err := c.move(ctx, o.Key, folder+retired+trees+name); err != nil {
			return err
		}
	}
	for name, o := range f.retiredTrees {
		key := folder + trees + name
		switch _, again := f.trees[name]; {
		case again:
			if err := c.cfg.Store.Delete(ctx, o.Key); err != nil {
				return err
			}
		case c.needed[key]:
			c.done.Kept++
			if err := c.move(ctx, o.Key, key); err != nil {
				return err
			}
		case c.old(o, retiredFor):
			if err := c.cfg.Store.Delete(ctx, o.Key); err != nil {
				return err
			}
			c.done.Trees++
			c.done.Bytes += o.Size
		}
	}
	return nil
}

// packs retires, puts back and removes packs of a tenant. The content of a pack stays in its place until it is removed: without its
// index, no new tree names it.
func (c *collector) packs(ctx context.Context, folder string, f *folderList) error {
	needed, err := c.packsNeeded(ctx, f)
	if err != nil {
		return err
	}
	for name, o := range f.index {
		if needed[name] || !c.old(o, c.cfg.Keep) {
			continue
		}
		if err := c.move(ctx, o.Key, folder+retired+index+name); err != nil {
			return err
		}
	}
	for name, o := range f.retiredIndex {
		switch {
		case needed[name]:
			if err := c.move(ctx, o.Key, folder+index+name); err != nil {
				return err
			}
		case c.old(o, retiredFor):
			if err := errors.Join(c.cfg.Store.Delete(ctx, folder+packs+name), c.cfg.Store.Delete(ctx, o.Key)); err != nil {
				return err
			}
			c.done.Packs++
			c.done.Bytes += o.Size + f.packs[name].Size
		}
	}
	for name, o := range f.packs {
		_, listed := f.index[name]
		_, leaving := f.retiredIndex[name]
		if listed || leaving || needed[name] || !c.old(o, c.cfg.Keep) {
			continue
		}
		// Its writer died before it wrote the index.
		if err := c.cfg.Store.Delete(ctx, o.Key); err != nil {
			return err
		}
		c.done.Packs++
		c.done.Bytes += o.Size
	}
	return nil
}

// move moves a small object; one that another Keeper has moved meanwhile is passed over.
func (c *collector) move(ctx context.Context, from, to string) error {
	text, err := read(ctx, c.cfg.Store, from, maxStored)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := put(ctx, c.cfg.Store, to, text); err != nil {
		return err
	}
	return c.cfg.Store.Delete(ctx, from)
}

// packsNeeded returns the names of the packs that trees need, retired ones included.
func (c *collector) packsNeeded(ctx context.Context, f *folderList) (map[string]bool, error) {
	needed := map[string]bool{}
	for _, list := range []objectsByName{f.trees, f.retiredTrees} {
		for _, o := range list {
			names, err := c.packsOf(ctx, o)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				needed[name] = true
			}
		}
	}
	return needed, nil
}

// treePacks are the packs of a tree, as it was at a time.
type treePacks struct {
	modified time.Time
	names    []string
}

// packsOf returns the packs that a tree needs. It remembers them: there may be many trees, and they rarely change.
func (c *collector) packsOf(ctx context.Context, o archive.Object) ([]string, error) {
	c.mu.Lock()
	known, ok := c.packsBy[o.Key]
	c.mu.Unlock()
	if ok && known.modified.Equal(o.Modified) {
		return known.names, nil
	}
	text, err := read(ctx, c.cfg.Store, o.Key, maxStored)
	if missing(err) {
		return c.packsMoved(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return c.remembered(o, text)
}

// packsMoved is packsOf for a tree that was moved since it was listed.
func (c *collector) packsMoved(ctx context.Context, o archive.Object) ([]string, error) {
	other := strings.Replace(o.Key, retired+trees, trees, 1)
	if other == o.Key {
		other = strings.Replace(o.Key, trees, retired+trees, 1)
	}
	text, err := read(ctx, c.cfg.Store, other, maxStored)
	if missing(err) {
		return nil, nil // removed
	}
	if err != nil {
		return nil, err
	}
	return c.remembered(o, text)
}

func (c *collector) remembered(o archive.Object, text []byte) ([]string, error) {
	var s struct {
		Packs []Pack `json:"packs"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s is damaged in the archive: remove it: %w", o.Key, err)
	}
	known := treePacks{modified: o.Modified}
	for _, p := range s.Packs {
		known.names = append(known.names, p.Name)
	}
	// Some archives know times in seconds only: a tree that is new may change in the same one.
	if c.old(o, time.Minute) {
		c.mu.Lock()
		c.packsBy[o.Key] = known
		c.mu.Unlock()
	}
	return known.names, nil
}

// forget forgets the packs of trees that are not in the archive any more.
func (c *collector) forget() {
	here := map[string]bool{}
	for _, f := range c.folders {
		for _, list := range []objectsByName{f.trees, f.retiredTrees} {
			for _, o := range list {
				here[o.Key] = true
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.packsBy {
		if !here[key] {
			delete(c.packsBy, key)
		}
	}
}
