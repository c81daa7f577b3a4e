package uploads

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
)

// hooked is an archive in which something else happens just before a call, once.
type hooked struct {
	archive.Store
	before map[string]func()
}

func (h *hooked) run(call, key string) {
	if f := h.before[call+" "+key]; f != nil {
		delete(h.before, call+" "+key)
		f()
	}
}

func (h *hooked) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	h.run("put", key)
	return h.Store.Put(ctx, key, body, size)
}

func (h *hooked) Delete(ctx context.Context, key string) error {
	h.run("delete", key)
	return h.Store.Delete(ctx, key)
}

// race is an upload that no job needs and that is about to be collected by two gateways, at a.
type race struct {
	*testing.T
	store  *hooked
	a, b   *Keeper
	id     string
	needed *jobs
}

var raced = sources{"a": "content"}

// inRace runs a test with the time of a bubble.
func inRace(t *testing.T, test func(*race)) {
	synctest.Test(t, func(t *testing.T) {
		r := &race{T: t, store: &hooked{Store: newClocked(t), before: map[string]func(){}}, needed: &jobs{need: map[[2]string]int{}}}
		r.a, r.b = NewKeeper(Config{Store: r.store}), NewKeeper(Config{Store: r.store})
		r.id, _ = raced.sent(t, r.a, tenant)
		time.Sleep(DefaultKeep)
		test(r)
		require.Empty(t, r.store.before, "this did not happen")
	})
}

func (r *race) collect(k *Keeper, needed *jobs) {
	r.Helper()
	_, err := k.Collect(r.Context(), needed)
	require.NoError(r, err)
}

// submits confirms the upload and makes a job of it.
func (r *race) submits(id string) {
	require.NoError(r, r.b.Confirm(r.Context(), tenant, id))
	r.needed.add(tenant, id, 1)
}

// lasts checks that the job has its upload, now and after all later collections.
func (r *race) lasts(id string) {
	r.Helper()
	for range 30 {
		_, err := unpacked(r.T, r.store, tenant, id)
		require.NoError(r, err, "the job lacks its upload")
		time.Sleep(retiredFor)
		r.collect(r.a, r.needed)
		r.collect(r.b, r.needed)
	}
}

// A gateway moves a tree that a submit has just made new; another one collects at once, and does not know of the job yet.
func TestRace_submitWhileTheTreeIsRetired(t *testing.T) {
	inRace(t, func(r *race) {
		r.store.before["delete "+treeKey(tenant, r.id)] = func() { r.submits(r.id) }
		r.collect(r.a, &jobs{})
		r.collect(r.b, &jobs{})
		r.lasts(r.id)
	})
}

// A submit puts a retired tree back while it is removed: its packs must not go in the same collection.
func TestRace_submitWhileTheTreeIsRemoved(t *testing.T) {
	inRace(t, func(r *race) {
		r.collect(r.a, &jobs{})
		time.Sleep(retiredFor)
		r.store.before["delete "+retiredKey(tenant, r.id)] = func() { r.submits(r.id) }
		r.collect(r.a, &jobs{})
		r.lasts(r.id)
	})
}

// A user finds an old piece; before the tree that needs it is there, one gateway retires its pack, and another collects.
func TestRace_aNewTreeNeedsAnOldPack(t *testing.T) {
	inRace(t, func(r *race) {
		const content = "of an upload that was begun"
		sum := Sum([]byte(content))
		_, err := r.a.PutPack(r.Context(), tenant, packOf(r, []Need{{sum, int64(len(content))}}, map[string]string{sum: content}))
		require.NoError(r, err)
		time.Sleep(DefaultKeep)
		tree := &Tree{Files: []File{{Path: "b", Size: int64(len(content)), Pieces: []string{sum}}}}
		r.store.before["put "+treeKey(tenant, tree.ID())] = func() {
			r.collect(r.a, &jobs{})
			r.collect(r.b, &jobs{})
		}
		id, lacks, err := r.a.Offer(r.Context(), tenant, tree)
		require.NoError(r, err)
		require.Empty(r, lacks)
		r.submits(id)
		r.lasts(id)
	})
}
