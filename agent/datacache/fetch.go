package datacache

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/durable"
)

// workers is how many files of one source are fetched at the same time.
const workers = 4

// flightID identifies a transfer: a source in one version.
type flightID struct {
	sourceID
	version string
}

// flight is one transfer, shared by all that wait for it. It ends when nothing waits for it.
type flight struct {
	cache  *Cache
	id     flightID
	source *sources.Source
	path   string // of the source, without secrets
	dir    string // of its partial files

	cancel context.CancelFunc
	done   chan struct{}
	object *object
	err    error
	// waiting holds the waiting requests; abandoned: the last of them stopped waiting. The cache's mutex guards both.
	waiting   map[*Request]bool
	abandoned bool

	mu       sync.Mutex
	begun    bool  // it has its turn
	reserved int64 // bytes
	written  int64
	here     int64 // bytes of its files on disk, including earlier transfers
}

// join waits for the transfer of a source, and starts it if there is none.
func (c *Cache) join(ctx context.Context, id sourceID, r Request, s *sources.Source) (*Data, error) {
	version := s.Version
	if version == "" {
		version = "unknown " + rand.Text() // shared with nobody
	}
	fid := flightID{id, version}
	c.mu.Lock()
	f := c.flights[fid]
	for ; f != nil && f.abandoned; f = c.flights[fid] {
		// Its partial files go to the next transfer once it has released them.
		c.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.mu.Lock()
	}
	if f == nil {
		c.stats.Misses++
		f = c.begin(fid, r, s)
	}
	f.waiting[&r] = true
	c.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	delete(f.waiting, &r)
	if len(f.waiting) == 0 {
		// No request joins it any more. If it has just ended, cancel changes nothing.
		f.abandoned = true
		f.cancel()
	}
	c.mu.Unlock()
	<-f.whenOver(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case f.err != nil:
		return nil, f.err
	}
	return f.object.data(), nil
}

// whenOver returns a channel that is closed when the transfer has ended. If others still wait for it, the channel is
// closed already: a request that leaves does not wait.
func (f *flight) whenOver(ctx context.Context) <-chan struct{} {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	if ctx.Err() != nil && !f.abandoned {
		return ctx.Done()
	}
	return f.done
}

// begin starts a transfer. The caller holds the mutex.
func (c *Cache) begin(id flightID, r Request, s *sources.Source) *flight {
	// A transfer lives as long as any request waits for it, not only as long as the request that started it.
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{
		cache: c, id: id, source: s, path: sources.Redacted(r.Path), cancel: cancel, done: make(chan struct{}), waiting: map[*Request]bool{},
		dir: filepath.Join(c.cfg.Dir, id.tenant, partsDir, digestOf(id.key + "\x00" + id.version)[:32]),
	}
	c.flights[id] = f
	if l := c.left[f.dir]; l != nil {
		c.used -= l.size // from here on its reservation counts
		delete(c.left, f.dir)
	}
	go f.run(ctx)
	return f
}

func (f *flight) run(ctx context.Context) {
	c := f.cache
	defer f.cancel()
	object, row, err := f.transfer(ctx)
	err = c.onDisk(err)
	left := int64(0)
	if err != nil && f.source.Version != "" {
		left = sizeOf(f.dir)
	}
	c.mu.Lock()
	delete(c.flights, f.id)
	c.reserved -= f.reserved
	c.stats.FetchedBytes += f.written
	if err != nil && left > 0 {
		c.left[f.dir] = &leftover{size: left, at: time.Now()}
		c.used += left
	}
	if err == nil {
		if c.objects[object.id] == nil {
			c.used += object.size
			c.objects[object.id] = object
		}
		object = c.objects[object.id]
		object.verified, object.damaged = true, false
		for r := range f.waiting {
			object.hold(r.Owner)
		}
		c.sources[f.id.sourceID] = row
		object.lastUsed = row.LastUsed
	}
	f.object, f.err = object, err
	c.mu.Unlock()
	if err == nil {
		c.writeRow(f.id.sourceID, row)
	} else if left == 0 {
		c.empty([]string{f.dir}) // it cannot be resumed
	}
	close(f.done)
}

// transfer fetches all files and moves them into place.
func (f *flight) transfer(ctx context.Context) (*object, *sourceRow, error) {
	select {
	case f.cache.slots <- struct{}{}:
		defer func() { <-f.cache.slots }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	began := time.Now()
	f.mu.Lock()
	f.begun = true
	f.mu.Unlock()
	if err := os.MkdirAll(f.dir, 0o711); err != nil {
		return nil, nil, fmt.Errorf("make room: %w", err)
	}
	if size := f.source.Size(); size > 0 {
		if err := f.reserve(size); err != nil {
			return nil, nil, err
		}
	}
	files, err := f.files(ctx)
	if err != nil {
		return nil, nil, err
	}
	o, err := f.publish(files)
	if err != nil {
		return nil, nil, fmt.Errorf("move it into place: %w", err)
	}
	now := time.Now().UTC()
	f.cache.log.Info("data was fetched", "source", f.path, "files", len(files), "bytes", o.size, "transferred", f.written, "took", time.Since(began).Round(time.Millisecond))
	return o, &sourceRow{Path: f.path, Version: f.source.Version, Digest: o.id.digest, FetchedAt: now, LastUsed: now}, nil
}

// files fetches the files, a few at a time.
func (f *flight) files(ctx context.Context) ([]keptFile, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group sync.WaitGroup
		once  sync.Once
		first error
		next  = make(chan int)
		kept  = make([]keptFile, len(f.source.Files))
	)
	for range min(workers, len(f.source.Files)) {
		group.Go(func() {
			for i := range next {
				one, err := f.file(ctx, i)
				if err != nil {
					once.Do(func() { first = err; cancel() })
					return
				}
				kept[i] = one
			}
		})
	}
feed:
	for i := range f.source.Files {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	if first == nil {
		first = ctx.Err()
	}
	return kept, first
}

// reserve reserves more space for the transfer.
func (f *flight) reserve(bytes int64) error {
	trash, ok := f.cache.makeRoom(bytes)
	f.cache.empty(trash)
	if !ok {
		// The message does not disclose how much other tenants use.
		return sources.Faultf("it does not fit into the data cache of node %s (%d bytes, some in use): make it smaller, raise data_cache_bytes of the agent, or retry later",
			f.cache.cfg.Node, f.cache.cfg.Capacity)
	}
	f.mu.Lock()
	f.reserved += bytes
	f.mu.Unlock()
	return nil
}

// grow reserves more space, in steps, when files of unknown size outgrow the reservation.
func (f *flight) grow(bytes int64) error {
	const step = 8 << 20
	f.mu.Lock()
	f.written += bytes
	short := f.source.Size() < 0 && f.written > f.reserved
	f.mu.Unlock()
	if short {
		return f.reserve(max(step, bytes))
	}
	return nil
}

// publish makes an object out of the partial files.
func (f *flight) publish(files []keptFile) (*object, error) {
	tree := filepath.Join(f.dir, "tree")
	if err := os.RemoveAll(tree); err != nil {
		return nil, err
	}
	for i := range files {
		to := filepath.Join(tree, filepath.FromSlash(files[i].Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.Link(f.part(i), to); err != nil { // the part stays until all is done
			return nil, err
		}
		info, err := os.Lstat(to)
		if err != nil {
			return nil, err
		}
		files[i].ModTime = info.ModTime().UnixNano()
	}
	slices.SortFunc(files, func(a, b keptFile) int { return cmp.Compare(a.Name, b.Name) })
	o := &object{id: objectID{f.id.tenant, digestOfFiles(files)}, files: files, lastUsed: time.Now()}
	parent := filepath.Join(f.cache.cfg.Dir, f.id.tenant, objectsDir)
	o.dir = filepath.Join(parent, o.id.digest)
	for _, file := range files {
		o.size += file.Size
	}
	f.cache.mu.Lock()
	old := f.cache.objects[o.id]
	if old != nil {
		// A task may use it, so it is repaired in place, file by file.
		old.hold(f.dir)
	}
	f.cache.mu.Unlock()
	if err := durable.MkdirAll(parent, 0o711); err != nil {
		return nil, err
	}
	if old != nil {
		defer func() {
			f.cache.mu.Lock()
			old.letGo(f.dir)
			f.cache.mu.Unlock()
		}()
		if err := mend(tree, o); err != nil {
			return nil, err
		}
		f.cache.mu.Lock()
		old.files = files
		f.cache.mu.Unlock()
	} else if err := durable.RenameTree(tree, o.dir); err != nil {
		return nil, err
	}
	if err := writeJSON(parent, o.id.digest+".json", files); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(f.dir); err != nil {
		f.cache.log.Error("the data cache cannot remove unused data", "path", f.dir, "error", err)
	}
	return o, nil
}

// mend replaces files of an object with good ones.
func mend(tree string, o *object) error {
	for _, file := range o.files {
		name := filepath.FromSlash(file.Name)
		to := filepath.Join(o.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := durable.Rename(filepath.Join(tree, name), to); err != nil {
			return err
		}
	}
	return nil
}

func (f *flight) part(i int) string { return filepath.Join(f.dir, strconv.Itoa(i)) }
