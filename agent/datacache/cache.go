// Package datacache fetches the data of jobs to a node once, and caches it for later jobs.
//
// Contract: Fetch resolves a source with the given credentials, every time, and returns a directory with its files; the
// owner holds the directory until Release. Probe checks whether Fetch would work, and fetches nothing. Sources on the
// node's own file systems are used in place and never copied.
//
// Guarantees: every use asks the source first. The cache saves the transfer but not the permission check, and a changed
// source is fetched again. Concurrent requests for a source share one transfer. A broken transfer resumes where it
// stopped, also after a restart, if the source can confirm that it is unchanged. Cached data is complete: files are
// written under a temporary name, synced and renamed, and their digests are verified on the first use by each agent
// process and whenever their size or time differs. Data that an owner holds is not evicted; otherwise the least
// recently used data is evicted first. Cached data is never used for another tenant.
//
// Not guaranteed: that tasks cannot read other tenants' cached data: they run as the agent's user.
package datacache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/durable"
)

// Config configures a cache. The comment of an optional field says what its zero value means.
type Config struct {
	// Node is the node's name in messages.
	Node string
	// Dir holds the cache; one process at a time uses it.
	Dir string
	// Capacity limits cached data and transfers, in bytes; 0: 100 GiB.
	Capacity int64
	// Sources says where data may come from. Node and Connections are set by the cache.
	Sources sources.Config
	// Stall is how long a transfer may make no progress; 0: 60 s.
	Stall time.Duration
	// Tries limits how often a transfer without progress is tried; 0: 5.
	Tries int
	// Pause is the first pause between two tries; it doubles each time; 0: 1 s.
	Pause time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// DefaultCapacity is the capacity of a cache whose configuration sets none.
const DefaultCapacity = 100 << 30

// Cache is open until its process ends; its contents outlive the process.
type Cache struct {
	cfg   Config
	log   *slog.Logger
	from  *sources.Resolver
	slots chan struct{} // bounds the transfers

	mu      sync.Mutex
	objects map[objectID]*object
	sources map[sourceID]*sourceRow
	// left are partial transfers that no request uses, by directory.
	left    map[string]*leftover
	flights map[flightID]*flight
	// used is the size of objects and partial transfers, reserved the size that transfers have requested.
	used, reserved int64
	stats          Stats
}

// Stats counts events since Open.
type Stats struct {
	Hits, Misses, Evictions, Damaged, FetchedBytes int64
	UsedBytes, CapacityBytes                       int64
}

// maxTransfers is how many sources are fetched at a time.
const maxTransfers = 4

// Open opens a cache with the contents that an earlier process left.
func Open(cfg Config) (*Cache, error) {
	cfg.Capacity = cmp.Or(cfg.Capacity, DefaultCapacity)
	cfg.Stall = cmp.Or(cfg.Stall, time.Minute)
	cfg.Tries = cmp.Or(cfg.Tries, 5)
	cfg.Pause = cmp.Or(cfg.Pause, time.Second)
	cfg.Sources.Node, cfg.Sources.Connections = cfg.Node, workers
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the data cache: %w", err)
	}
	from, err := sources.New(cfg.Sources)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		cfg: cfg, log: cfg.Logger, from: from, slots: make(chan struct{}, maxTransfers),
		objects: map[objectID]*object{}, sources: map[sourceID]*sourceRow{}, left: map[string]*leftover{}, flights: map[flightID]*flight{},
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("read the data cache: %w", err)
	}
	return c, nil
}

// Validate joins all faults of the configuration.
func (c Config) Validate() error {
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("data cache: no folder"))
	}
	if c.Capacity < 0 {
		faults = append(faults, errors.New("data cache: its size is negative"))
	}
	return errors.Join(append(faults, c.Sources.Validate())...)
}

// Request asks for the data of one source.
type Request struct {
	Tenant, Path string
	// What, such as "model", describes the data in messages; empty: "data source".
	What string
	// OneFormat: the source is a model whose repository may hold the weights in several formats. If they are present as
	// safetensors, the other formats are skipped.
	OneFormat bool
	// Checkpoint is a checkpoint to fetch from the archive of checkpoints; Path then only names it. nil: Path is a
	// source.
	Checkpoint *sources.Checkpoint
	// Object is one object of the archive; Path then only names it. nil: it is something else.
	Object *sources.Object
	// Remote is a checkpoint to fetch from another node; Path then only names it. nil: Path is a source, or Checkpoint
	// is set.
	Remote      *sources.Remote
	Credentials sources.Credentials
	// Owner holds the result until Release.
	Owner string
}

// Data is a source on the node.
type Data struct {
	// Dir holds the files. If a local source is a single file, Dir is that file.
	Dir string
	// Local: the source is used in place.
	Local bool
	// Files are paths relative to Dir; none for a large local directory.
	Files []string
	// Count is the number of files; -1: too many to count.
	Count int
	// Size in bytes of all files; -1: not counted.
	Size int64
	// Digest over the names and digests of the files; empty: local.
	Digest string
}

// explain makes the sentence that users see.
func explain(what, path string, err error) error {
	if sources.Broken(err) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w; see why the service fails, then retry the job", cmp.Or(what, "data source"), sources.Redacted(path), err)
	}
	return fmt.Errorf("%s %s: %w", cmp.Or(what, "data source"), sources.Redacted(path), err)
}

// inPlace is a source of the node as data.
func inPlace(l *sources.Local) *Data {
	return &Data{Dir: l.Dir, Local: true, Files: l.Files, Count: l.Count, Size: l.Size}
}

// Fetch brings a source to the node, or finds it in the cache. Its error is one sentence for the job's user. The owner may
// hold the source even after an error: call Release after every Fetch.
func (c *Cache) Fetch(ctx context.Context, r Request) (*Data, error) {
	for again := 0; ; again++ {
		data, err := c.fetch(ctx, r)
		switch {
		case err == nil:
			return data, nil
		case errors.Is(err, sources.ErrChanged) && again < 3 && ctx.Err() == nil:
			continue // the resolved version no longer exists
		}
		return nil, explain(r.What, r.Path, err)
	}
}

func (c *Cache) fetch(ctx context.Context, r Request) (*Data, error) {
	s, err := c.resolveWell(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.Local != nil {
		return inPlace(s.Local), nil
	}
	if r.OneFormat {
		s = s.AsModel()
	}
	id := sourceID{tenantDir(r.Tenant), sourceKey(r.Path, s.Part)}
	if data := c.hit(ctx, id, s.Version, r.Owner); data != nil {
		return data, nil
	}
	return c.join(ctx, id, r, s)
}

// resolveWell tries resolve a few times: a busy service must not end a job.
func (c *Cache) resolveWell(ctx context.Context, r Request) (*sources.Source, error) {
	pauses := c.pauses()
	for try := 1; ; try++ {
		s, err := c.resolveRequest(ctx, r)
		if err == nil || ctx.Err() != nil || !sources.Broken(err) || try >= c.tries(err) {
			return s, err
		}
		c.log.Info("retrying a source", "source", sources.Redacted(r.Path), "error", err)
		if wait.For(ctx, pauses.Next()); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (c *Cache) resolveRequest(ctx context.Context, r Request) (*sources.Source, error) {
	if r.Checkpoint != nil {
		return c.from.Checkpoint(ctx, r.Checkpoint)
	}
	if r.Object != nil {
		return c.from.Object(r.Object)
	}
	if r.Remote != nil {
		return c.from.Remote(ctx, r.Remote)
	}
	return c.from.Resolve(ctx, r.Tenant, r.Path, r.Credentials)
}

// pauses are the pauses between tries.
func (c *Cache) pauses() wait.Backoff {
	return wait.Backoff{First: c.cfg.Pause, Longest: 30 * time.Second}
}

// hit finds a cached source whose version is current.
func (c *Cache) hit(ctx context.Context, id sourceID, version, owner string) *Data {
	if version == "" {
		return nil // cannot tell whether it is unchanged
	}
	c.mu.Lock()
	row := c.sources[id]
	var o *object
	if row != nil && row.Version == version {
		o = c.objects[objectID{id.tenant, row.Digest}]
	}
	if o == nil {
		c.mu.Unlock()
		return nil
	}
	o.hold(owner) // while it is looked at
	c.mu.Unlock()
	if err := c.verify(ctx, o); err != nil {
		c.log.Warn("cached data is damaged and is fetched again", "source", sources.Redacted(row.Path), "error", err)
		c.mu.Lock()
		o.letGo(owner)
		c.stats.Damaged++
		o.damaged = true
		trash := c.discardDamaged(o)
		c.mu.Unlock()
		c.empty(trash)
		return nil
	}
	c.mu.Lock()
	c.stats.Hits++
	row = c.touch(id, row)
	c.mu.Unlock()
	c.writeRow(id, row)
	return o.data()
}

// Release releases everything that the owner holds.
func (c *Cache) Release(owner string) {
	c.mu.Lock()
	var trash []string
	for _, o := range c.objects {
		o.letGo(owner)
		if o.damaged {
			trash = append(trash, c.discardDamaged(o)...)
		}
	}
	c.mu.Unlock()
	c.empty(trash)
}

// Hold holds, for a task that an earlier process launched, the data of a directory that Fetch returned.
func (c *Cache) Hold(owner, dir string) {
	rel, err := filepath.Rel(c.cfg.Dir, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return
	}
	parts := strings.Split(rel, string(filepath.Separator))
	if len(parts) < 3 || parts[1] != objectsDir {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[objectID{parts[0], parts[2]}]; o != nil {
		o.hold(owner)
	}
}

// Check is the result of Probe.
type Check struct {
	// Files and Size are -1 if they are unknown before fetching.
	Files  int
	Size   int64
	Cached bool
}

// Probe checks whether a source could be fetched for a tenant; the error is one sentence.
func (c *Cache) Probe(ctx context.Context, tenant, path string, credentials sources.Credentials) (Check, error) {
	s, err := c.from.Resolve(ctx, tenant, path, credentials)
	if err != nil {
		return Check{}, explain("", path, err)
	}
	if s.Local != nil {
		return Check{Files: s.Local.Count, Size: s.Local.Size}, nil
	}
	check := Check{Files: len(s.Files), Size: s.Size()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if row := c.sources[sourceID{tenantDir(tenant), sourceKey(path, s.Part)}]; row != nil && s.Version != "" && row.Version == s.Version {
		o := c.objects[objectID{tenantDir(tenant), row.Digest}]
		check.Cached = o != nil && !o.damaged
	}
	return check, nil
}

// Entry is a cached source.
type Entry struct {
	Path, Digest        string
	Size                int64
	Files               int
	FetchedAt, LastUsed time.Time
	InUse               bool
}

// Entries lists the cached sources of a tenant, most recently used first, and their size.
func (c *Cache) Entries(tenant string) (entries []Entry, used int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := tenantDir(tenant)
	for id, row := range c.sources {
		o := c.objects[objectID{id.tenant, row.Digest}]
		if id.tenant != dir || o == nil {
			continue
		}
		entries = append(entries, Entry{
			Path: row.Path, Digest: row.Digest, Size: o.size, Files: len(o.files), FetchedAt: row.FetchedAt, LastUsed: row.LastUsed, InUse: len(o.holders) > 0,
		})
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(b.LastUsed.Compare(a.LastUsed), strings.Compare(a.Path, b.Path))
	})
	for id, o := range c.objects {
		if id.tenant == dir {
			used += o.size
		}
	}
	return entries, used
}

// Capacity returns the size limit of the cache.
func (c *Cache) Capacity() int64 { return c.cfg.Capacity }

// Stats returns the counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.UsedBytes, s.CapacityBytes = c.used+c.reserved, c.cfg.Capacity
	return s
}

// tenantDir returns the name of a tenant's directory. It is a digest, because a tenant's name need not be a valid file
// name.
func tenantDir(tenant string) string { return digestOf("tenant\x00" + tenant)[:32] }

// sourceKey returns a key for a source or for a part of it. The key of a part differs from that of the whole.
func sourceKey(path, part string) string {
	text := "source\x00" + path
	if part != "" {
		text += "\x00" + part
	}
	return digestOf(text)[:32]
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
