package uploads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
)

// clocked is an archive whose objects have the times of the test's clock, and whose calls take time.
type clocked struct {
	archive.Store
	slow bool

	mu    sync.Mutex
	times map[string]time.Time
	rand  *rand.Rand
}

func newClocked(t testing.TB) *clocked {
	store, _ := folderOf(t)
	return &clocked{Store: store, times: map[string]time.Time{}, rand: rand.New(rand.NewPCG(3, 4))}
}

// wait takes from nothing to a minute.
func (c *clocked) wait() {
	if c.slow {
		c.mu.Lock()
		d := time.Duration(c.rand.ExpFloat64() * float64(10*time.Second))
		c.mu.Unlock()
		time.Sleep(min(d, time.Minute))
	}
}

func (c *clocked) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	c.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[key] = time.Now()
	return c.Store.Put(ctx, key, body, size)
}

func (c *clocked) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	c.wait()
	return c.Store.Get(ctx, key, offset)
}

func (c *clocked) Delete(ctx context.Context, key string) error {
	c.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Store.Delete(ctx, key)
}

func (c *clocked) List(ctx context.Context, prefix string) ([]archive.Object, error) {
	c.wait()
	c.mu.Lock()
	objects, err := c.Store.List(ctx, prefix)
	for i := range objects {
		objects[i].Modified = c.times[objects[i].Key]
	}
	c.mu.Unlock()
	c.wait()
	return objects, err
}

// jobs are the uploads of jobs.
type jobs struct {
	mu   sync.Mutex
	need map[[2]string]int
	err  error
}

func (j *jobs) add(tenant, id string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.need[[2]string{tenant, id}] += n; j.need[[2]string{tenant, id}] == 0 {
		delete(j.need, [2]string{tenant, id})
	}
}

// EachUpload implements Jobs.
func (j *jobs) EachUpload(_ context.Context, need func(tenant, id string)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key := range j.need {
		need(key[0], key[1])
	}
	return j.err
}

func countOf(t testing.TB, store archive.Store) int {
	t.Helper()
	objects, err := store.List(t.Context(), top)
	require.NoError(t, err)
	return len(objects)
}

func TestCollect_keepsWhatJobsNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newClocked(t)
		k := NewKeeper(Config{Store: store})
		needed := &jobs{need: map[[2]string]int{}}
		collect := func(k *Keeper) Collection {
			done, err := k.Collect(t.Context(), needed)
			require.NoError(t, err)
			return done
		}
		require.Equal(t, Collection{}, collect(k))
		shared := sources{"a": "shared", "b": "kept"}
		kept, _ := shared.sent(t, k, tenant)
		gone, _ := sources{"a": "shared", "c": "gone"}.sent(t, k, tenant)
		foreign, _ := shared.sent(t, k, "initech")
		require.Equal(t, kept, foreign)
		// An upload that was begun, and a pack whose writer died.
		_, err := k.PutPack(t.Context(), tenant, packOf(t, []Need{{Sum([]byte("left")), 4}}, map[string]string{Sum([]byte("left")): "left"}))
		require.NoError(t, err)
		require.NoError(t, put(t.Context(), store, PackKey(tenant, "torn"), []byte("torn")))
		needed.add(tenant, kept, 1)

		time.Sleep(DefaultKeep - time.Second)
		require.Equal(t, Collection{Kept: 3}, collect(k), "all is new enough")
		time.Sleep(time.Second)
		require.Equal(t, Collection{Kept: 1, Packs: 1, Bytes: 4}, collect(k), "what nobody can need any more goes at once, the rest is retired")
		_, err = unpacked(t, store, tenant, gone)
		require.NoError(t, err, "a job whose submit had begun still gets it")
		time.Sleep(retiredFor)
		require.Equal(t, 2, collect(k).Trees)
		time.Sleep(retiredFor)
		collect(k)
		time.Sleep(retiredFor)
		collect(k)
		_, err = unpacked(t, store, tenant, gone)
		require.ErrorIs(t, err, ErrUnknown)
		require.ErrorIs(t, k.Confirm(t.Context(), "initech", kept), ErrUnknown)
		_, err = unpacked(t, store, tenant, kept)
		require.NoError(t, err)
		require.Equal(t, 5, countOf(t, store), "a tree, and two packs with their indices")

		// A content that was collected is sent again.
		_, sent := sources{"a": "shared", "c": "gone"}.sent(t, k, tenant)
		require.Equal(t, 1, sent)
		needed.add(tenant, kept, -1)
		for range 3 {
			time.Sleep(DefaultKeep)
			collect(NewKeeper(Config{Store: store}))
			time.Sleep(retiredFor)
			collect(k)
		}
		require.Zero(t, countOf(t, store))
	})
}

// A retired upload that is submitted again is put back by the submit, and by the next collection.
func TestCollect_retiredUploadsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newClocked(t)
		k := NewKeeper(Config{Store: store})
		id, _ := sources{"a": "content"}.sent(t, k, tenant)
		needed := &jobs{need: map[[2]string]int{}}
		time.Sleep(DefaultKeep)
		_, err := k.Collect(t.Context(), needed)
		require.NoError(t, err)
		_, err = read(t.Context(), store, treeKey(tenant, id), maxStored)
		require.ErrorIs(t, err, archive.ErrNotFound)

		needed.add(tenant, id, 1)
		time.Sleep(retiredFor)
		_, err = k.Collect(t.Context(), needed)
		require.NoError(t, err)
		_, err = read(t.Context(), store, treeKey(tenant, id), maxStored)
		require.NoError(t, err, "a job names it")

		needed.add(tenant, id, -1)
		time.Sleep(DefaultKeep)
		_, err = k.Collect(t.Context(), needed)
		require.NoError(t, err)
		require.NoError(t, k.Confirm(t.Context(), tenant, id))
		for range 3 {
			time.Sleep(retiredFor)
			_, err = k.Collect(t.Context(), needed)
			require.NoError(t, err)
		}
		_, err = unpacked(t, store, tenant, id)
		require.NoError(t, err, "it was confirmed a short time ago")
	})
}

func TestCollect_removesNothingWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newClocked(t)
		k := NewKeeper(Config{Store: store})
		sources{"a": "content"}.sent(t, k, tenant)
		for range 5 {
			time.Sleep(DefaultKeep)
			_, err := k.Collect(t.Context(), &jobs{err: errors.New("no leader")})
			require.ErrorContains(t, err, "no leader")
		}
		require.Equal(t, 3, countOf(t, store))
	})
}

// A damaged list of files keeps the uploads of its tenant from being collected, and those of no other.
func TestCollect_goesOnBesideDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newClocked(t)
		k := NewKeeper(Config{Store: store})
		sources{"a": "content"}.sent(t, k, tenant)
		require.NoError(t, put(t.Context(), store, treeKey(tenant, "sha256:"+Sum(nil)), []byte("{")))
		sources{"a": "content"}.sent(t, k, "initech")
		for range 4 {
			time.Sleep(DefaultKeep)
			_, _ = k.Collect(t.Context(), &jobs{})
		}
		objects, err := store.List(t.Context(), folder("initech"))
		require.NoError(t, err)
		require.Empty(t, objects)
	})
}

// Two gateways collect for weeks, while users send, submit and forget: no job ever lacks a file, and nothing is left at the end.
func TestCollect_whileUsersSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newClocked(t)
		store.slow = true
		needed := &jobs{need: map[[2]string]int{}}
		gateways := []*Keeper{NewKeeper(Config{Store: store}), NewKeeper(Config{Store: store})}
		ctx, cancel := context.WithCancel(t.Context())
		var collectors, users sync.WaitGroup
		for i, k := range gateways {
			collectors.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Second)
				for ctx.Err() == nil {
					_, err := k.Collect(ctx, needed)
					if ctx.Err() == nil {
						assert.NoError(t, err)
					}
					time.Sleep(time.Hour)
				}
			})
		}
		var resubmits, looks atomic.Int32
		for user := range 4 {
			random := rand.New(rand.NewPCG(uint64(user), 7))
			pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
			users.Go(func() {
				for range 40 {
					files := sources{fmt.Sprint("f", random.IntN(3)): "one", "g": strings.Repeat("g", 1+random.IntN(3))}
					id, sent := files.sent(t, gateways[random.IntN(2)], tenant)
					if sent == 0 {
						resubmits.Add(1)
					}
					if random.IntN(2) == 0 { // submitted by its id, just when it is collected
						time.Sleep(DefaultKeep)
						pause(3 * time.Hour)
					}
					if err := gateways[random.IntN(2)].Confirm(ctx, tenant, id); err != nil {
						assert.ErrorIs(t, err, ErrUnknown)
						continue
					}
					pause(4 * time.Minute) // until the job is committed
					needed.add(tenant, id, 1)
					for range 4 {
						pause(2 * time.Hour)
						looks.Add(1)
						_, err := unpacked(t, store, tenant, id)
						assert.NoError(t, err, "a job lacks its upload")
					}
					needed.add(tenant, id, -1)
					if random.IntN(2) == 0 { // the next upload finds the old pieces just when they are collected
						time.Sleep(DefaultKeep - 10*time.Hour)
						pause(20 * time.Hour)
					}
				}
			})
		}
		users.Wait()
		require.Positive(t, resubmits.Load())
		require.Positive(t, looks.Load())
		time.Sleep(4 * DefaultKeep)
		cancel()
		collectors.Wait()
		require.Zero(t, countOf(t, store))
	})
}
