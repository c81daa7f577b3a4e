// Package datacache fetches the data of jobs to a node, once, and keeps it there for the next ones.
//
// Contract: Fetch resolves a source anew with the credentials that it is given, and returns a directory that holds its files;
// the owner holds it until Release. Probe says whether that would work, and fetches nothing. Sources on the node's own file
// systems are used where they are, and never copied.
//
// Guarantees. Every use asks the source first: the cache saves the transfer, never the right to read, and what has changed at
// the source is fetched anew. However many ask at once, one transfer is made. A transfer that broke goes on where it stopped,
// also after a restart, when the source can tell that it is still the same. What is kept is whole: files are written aside,
// synced and renamed, and compared with their digests on the first use by each agent process, and whenever their size or time
// is not what it was. What an owner holds is not evicted; else the least recently used goes first. Nothing that is kept for
// one tenant is looked at for another.
//
// Not guaranteed: that tasks cannot reach what is kept for others: they run as the agent's user.
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

	"github.com/mindcoordinator/mind/agent/backoff"
	"github.com/mindcoordinator/mind/agent/datacache/reach"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/durable"
)

// Config is what a cache is told. The zero value of an optional field means what its comment says.
type Config struct {
	// Node names the node in messages.
	Node string
	// Dir holds the cache; one process at a time uses it.
	Dir string
	// Capacity bounds what is kept and being fetched, in bytes; 0: 100 GiB.
	Capacity int64
	// Roots are the directories in which local sources may lie.
	Roots []string
	// Own are those in which sources of one tenant may lie, too; nil: none.
	Own func(tenant string) []string
	// Hidden are directories in which no local source may lie, unless Roots or Own name something in them.
	Hidden []string
	// Hosts are the hosts that sources may be fetched from; see package reach. Empty: all but this machine and link-local addresses.
	Hosts []string
	// Hub is where hf:// sources are; an empty URL: https://huggingface.co.
	Hub Service
	// Drive and Atlas are where scaidrive:// and scaiatlas:// sources are; an empty URL: nowhere.
	Drive, Atlas Service
	// S3 is where s3:// sources are.
	S3 S3
	// Stall is how long a transfer may stand still; 0: 60 s.
	Stall time.Duration
	// Tries bounds how often a transfer that makes no progress is begun; 0: 5.
	Tries int
	// Pause is the first pause between two of them, which doubles; 0: 1 s.
	Pause time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Service is an HTTP service that the operator has named.
type Service struct {
	URL string
	// Token is sent where the request brings none of its own.
	Token string
}

// S3 is an object store.
type S3 struct {
	// Endpoint is its URL; empty: Amazon's.
	Endpoint  string
	Region    string
	PathStyle bool
	// KeyID and Secret are the node's own; empty: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and without these nobody's.
	KeyID, Secret string
	CAFile        string
}

// Credentials come with a request, and are forgotten with it.
type Credentials struct {
	ScaiDrive, ScaiAtlas string
	// HubToken, and a key for object stores, from the environment of the job.
	HubToken                      string
	AWSKeyID, AWSSecret, AWSToken string
}

// Default values.
const (
	DefaultCapacity = 100 << 30
	defaultHub      = "https://huggingface.co"
)

// Cache is open until its process ends; what it keeps survives that.
type Cache struct {
	cfg   Config
	log   *slog.Logger
	reach *reach.Guard
	slots chan struct{} // bounds the transfers

	mu      sync.Mutex
	objects map[objectID]*object
	sources map[sourceID]*sourceRow
	// left are parts of transfers that nobody is at, by directory.
	left    map[string]*leftover
	flights map[flightID]*flight
	// used is what objects and leftovers take, reserved what transfers have asked for.
	used, reserved int64
	stats          Stats
}

// Stats count what happened since Open.
type Stats struct {
	Hits, Misses, Evictions, Damaged, FetchedBytes int64
	UsedBytes, CapacityBytes                       int64
}

// maxTransfers is how many sources are fetched at the same time.
const maxTransfers = 4

// Open takes up what an earlier process kept.
func Open(cfg Config) (*Cache, error) {
	cfg.Capacity = cmp.Or(cfg.Capacity, DefaultCapacity)
	cfg.Stall = cmp.Or(cfg.Stall, time.Minute)
	cfg.Tries = cmp.Or(cfg.Tries, 5)
	cfg.Pause = cmp.Or(cfg.Pause, time.Second)
	cfg.Hub.URL = cmp.Or(cfg.Hub.URL, defaultHub)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// What is compared with resolved paths must be resolved itself.
	if err := durable.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the data cache: %w", err)
	}
	cfg.Hidden = realPaths(cfg.Hidden)
	guard, err := reach.New(reach.Config{
		Hosts: cfg.Hosts, Services: []string{cfg.Hub.URL, cfg.Drive.URL, cfg.Atlas.URL, cfg.S3.Endpoint}, CAFile: cfg.S3.CAFile, Connections: workers,
	})
	if err != nil {
		return nil, err
	}
	c := &Cache{
		cfg: cfg, log: cfg.Logger, reach: guard, slots: make(chan struct{}, maxTransfers),
		objects: map[objectID]*object{}, sources: map[sourceID]*sourceRow{}, left: map[string]*leftover{}, flights: map[flightID]*flight{},
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("read the data cache: %w", err)
	}
	return c, nil
}

// realPaths are directories with links resolved.
func realPaths(dirs []string) []string {
	dirs = slices.Clone(dirs)
	for i, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs[i] = real
		}
	}
	return dirs
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
	for _, dir := range c.Roots {
		if !filepath.IsAbs(dir) {
			faults = append(faults, fmt.Errorf("data roots: %q is not an absolute path", dir))
		}
	}
	for name, url := range map[string]string{"the Hugging Face hub": c.Hub.URL, "ScaiDrive": c.Drive.URL, "ScaiAtlas": c.Atlas.URL, "the object store": c.S3.Endpoint} {
		if _, err := reach.Base(url); url != "" && err != nil {
			faults = append(faults, fmt.Errorf("URL of %s: %w", name, err))
		}
	}
	return errors.Join(append(faults, reach.CheckHosts(c.Hosts))...)
}

// Request asks for the data of one source.
type Request struct {
	Tenant, Path string
	// What it is, for people; empty: a data source.
	What string
	// OneFormat: it is a model, of which a repository may hold the weights in many formats: where they are there as safetensors,
	// those in other formats are left out.
	OneFormat   bool
	Credentials Credentials
	// Owner holds what is found until Release.
	Owner string
}

// Data is a source that is on the node.
type Data struct {
	// Dir holds the files, but for a local source that is a file: then it is the file.
	Dir string
	// Local: it is used where it is.
	Local bool
	// Files are relative to Dir; of a large local directory there are none.
	Files []string
	// Count is how many there are, -1: too many to count.
	Count int
	// Size in bytes of all of them; -1: not counted.
	Size int64
	// Digest over the names and digests of the files; empty: local.
	Digest string
}

// Fetch brings a source to the node, or finds it there. The error is one sentence for whoever submitted the job. The owner may
// hold it all the same: Release follows every Fetch.
func (c *Cache) Fetch(ctx context.Context, r Request) (*Data, error) {
	for again := 0; ; again++ {
		data, err := c.fetch(ctx, r)
		switch {
		case err == nil:
			return data, nil
		case errors.Is(err, errChanged) && again < 3 && ctx.Err() == nil:
			continue // what was resolved is there no more
		}
		return nil, explain(r.What, r.Path, err)
	}
}

func (c *Cache) fetch(ctx context.Context, r Request) (*Data, error) {
	s, err := c.resolveWell(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.local != nil {
		return s.local, nil
	}
	if r.OneFormat {
		s = s.asModel()
	}
	id := sourceID{tenantDir(r.Tenant), sourceKey(r.Path, s.part)}
	if data := c.hit(ctx, id, s.version, r.Owner); data != nil {
		return data, nil
	}
	return c.join(ctx, id, r, s)
}

// resolveWell is resolve in a few tries: a service that is busy for a moment is no reason to end a job.
func (c *Cache) resolveWell(ctx context.Context, r Request) (*source, error) {
	pauses := c.pauses()
	for try := 1; ; try++ {
		s, err := c.resolve(ctx, r.Tenant, r.Path, r.Credentials)
		if err == nil || ctx.Err() != nil || !transient(err) || try >= c.cfg.Tries {
			return s, err
		}
		c.log.Info("a source is asked again", "source", Redacted(r.Path), "error", err)
		if wait.For(ctx, pauses.Next()); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// pauses are those between two tries.
func (c *Cache) pauses() backoff.Pauses {
	return backoff.Pauses{First: c.cfg.Pause, Longest: 30 * time.Second}
}

// hit finds a source that is kept as it is now.
func (c *Cache) hit(ctx context.Context, id sourceID, version, owner string) *Data {
	if version == "" {
		return nil // it cannot be told whether it is the same
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
		c.log.Warn("what the data cache kept is damaged: it is fetched anew", "source", Redacted(row.Path), "error", err)
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

// Release lets go of all that the owner holds.
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

// Hold holds what a directory that Fetch returned is of, for the owner: a task that an earlier process launched.
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

// Check is what Probe found.
type Check struct {
	// Files and Size are -1 when they cannot be told without fetching.
	Files  int
	Size   int64
	Cached bool
}

// Probe says whether a source could be fetched for a tenant; the error is one sentence.
func (c *Cache) Probe(ctx context.Context, tenant, path string, credentials Credentials) (Check, error) {
	s, err := c.resolve(ctx, tenant, path, credentials)
	if err != nil {
		return Check{}, explain("", path, err)
	}
	if s.local != nil {
		return Check{Files: s.local.Count, Size: s.local.Size}, nil
	}
	check := Check{Files: len(s.files), Size: s.size()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if row := c.sources[sourceID{tenantDir(tenant), sourceKey(path, s.part)}]; row != nil && s.version != "" && row.Version == s.version {
		o := c.objects[objectID{tenantDir(tenant), row.Digest}]
		check.Cached = o != nil && !o.damaged
	}
	return check, nil
}

// Entry is a source that is kept.
type Entry struct {
	Path, Digest        string
	Size                int64
	Files               int
	FetchedAt, LastUsed time.Time
	InUse               bool
}

// Entries lists what is kept for a tenant, most recently used first, and what it takes.
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

// Capacity is the bound of the cache.
func (c *Cache) Capacity() int64 { return c.cfg.Capacity }

// Stats returns the counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.UsedBytes, s.CapacityBytes = c.used+c.reserved, c.cfg.Capacity
	return s
}

// tenantDir is where a tenant's things are. Names of tenants need not be names of files.
func tenantDir(tenant string) string { return digestOf("tenant\x00" + tenant)[:32] }

// sourceKey names a source, or a part of it, which is not to be taken for the whole.
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
