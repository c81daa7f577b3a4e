package datacache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/durable"
)

// Layout of a tenant's directory: objects/DIGEST/ with the files of a source, objects/DIGEST.json with their digests,
// sources/KEY.json with the source's version when it was fetched, and parts/ID/ with partial transfers.
const (
	objectsDir = "objects"
	sourcesDir = "sources"
	partsDir   = "parts"
	trashStart = "trash-"
	// partsFor is how long partial transfers are kept without a request that resumes them.
	partsFor = 7 * 24 * time.Hour
)

type objectID struct{ tenant, digest string }

type sourceID struct{ tenant, key string }

// keptFile is one file of an object.
type keptFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// ModTime in Unix nanoseconds, when the file was moved into place.
	ModTime int64 `json:"mod_time"`
}

// object is a set of files, identified by the digest of their names and contents. The cache's mutex guards all fields
// except files.
type object struct {
	id       objectID
	dir      string
	files    []keptFile
	size     int64
	lastUsed time.Time
	holders  map[string]bool
	// verified: this process has verified the digests of the files.
	verified bool
	damaged  bool
}

func (o *object) hold(owner string) {
	if o.holders == nil {
		o.holders = map[string]bool{}
	}
	o.holders[owner] = true
}

func (o *object) letGo(owner string) { delete(o.holders, owner) }

func (o *object) data() *Data {
	d := &Data{Dir: o.dir, Size: o.size, Digest: o.id.digest, Count: len(o.files)}
	for _, f := range o.files {
		d.Files = append(d.Files, f.Name)
	}
	return d
}

// sourceRow records a source's version when it was fetched. A row is immutable once it is shared.
type sourceRow struct {
	// Path without secrets.
	Path      string    `json:"path"`
	Version   string    `json:"version"`
	Digest    string    `json:"digest"`
	FetchedAt time.Time `json:"fetched_at"`
	LastUsed  time.Time `json:"last_used_at"`
}

// leftover is a partial transfer.
type leftover struct {
	size int64
	at   time.Time
}

// digestOfFiles returns the digest of an object.
func digestOfFiles(files []keptFile) string {
	h := sha256.New()
	for _, f := range files { // sorted by name
		fmt.Fprintf(h, "%d:%s %s\n", len(f.Name), f.Name, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// load indexes the contents that an earlier process left. Incomplete data is removed.
func (c *Cache) load() error {
	tenants, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if !t.IsDir() {
			continue
		}
		dir := filepath.Join(c.cfg.Dir, t.Name())
		if strings.HasPrefix(t.Name(), trashStart) {
			c.empty([]string{dir})
			continue
		}
		c.loadObjects(t.Name(), filepath.Join(dir, objectsDir))
		c.loadSources(t.Name(), filepath.Join(dir, sourcesDir))
		c.loadParts(filepath.Join(dir, partsDir))
	}
	return nil
}

func (c *Cache) loadObjects(tenant, dir string) {
	for _, e := range list(dir) {
		path := filepath.Join(dir, e.Name())
		digest, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord {
			if _, err := os.Stat(path + ".json"); err != nil {
				c.empty([]string{path})
			}
			continue
		}
		o := &object{id: objectID{tenant, digest}, dir: filepath.Join(dir, digest)}
		err := readJSON(path, &o.files)
		info, statErr := os.Stat(o.dir)
		if err != nil || statErr != nil || digestOfFiles(o.files) != digest {
			c.empty([]string{path, o.dir})
			continue
		}
		for _, f := range o.files {
			o.size += f.Size
		}
		o.lastUsed = info.ModTime()
		c.objects[o.id] = o
		c.used += o.size
	}
}

func (c *Cache) loadSources(tenant, dir string) {
	for _, e := range list(dir) {
		path := filepath.Join(dir, e.Name())
		key, ok := strings.CutSuffix(e.Name(), ".json")
		row := &sourceRow{}
		if !ok || readJSON(path, row) != nil || c.objects[objectID{tenant, row.Digest}] == nil {
			c.empty([]string{path})
			continue
		}
		c.sources[sourceID{tenant, key}] = row
		if o := c.objects[objectID{tenant, row.Digest}]; row.LastUsed.After(o.lastUsed) {
			o.lastUsed = row.LastUsed
		}
	}
}

func (c *Cache) loadParts(dir string) {
	for _, e := range list(dir) {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) > partsFor {
			c.empty([]string{path})
			continue
		}
		c.left[path] = &leftover{size: sizeOf(path), at: info.ModTime()}
		c.used += c.left[path].size
	}
}

func list(dir string) []fs.DirEntry {
	entries, _ := os.ReadDir(dir) // a missing directory counts as empty
	return entries
}

func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// verify compares an object with its digests. It reads a file only on the first use of the object in this process, and
// when the file's size or time differs. The caller holds the object.
func (c *Cache) verify(ctx context.Context, o *object) error {
	c.mu.Lock()
	verified, damaged := o.verified, o.damaged
	c.mu.Unlock()
	if damaged {
		return errors.New("it was found damaged before")
	}
	for _, f := range o.files {
		path := filepath.Join(o.dir, filepath.FromSlash(f.Name))
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular() || info.Size() != f.Size:
			return fmt.Errorf("%s is not the file that it was", f.Name)
		case verified && info.ModTime().UnixNano() == f.ModTime:
			continue
		}
		sum, err := fileDigest(ctx, path)
		if err != nil {
			return err
		}
		if sum != f.SHA256 {
			return fmt.Errorf("the contents of %s have changed", f.Name)
		}
	}
	c.mu.Lock()
	o.verified = true
	c.mu.Unlock()
	return nil
}

func fileDigest(ctx context.Context, path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, reading{ctx, file}); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// reading is a reader that fails when its context ends.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// touch records that a source was used. The caller holds the mutex, and writes the returned row.
func (c *Cache) touch(id sourceID, row *sourceRow) *sourceRow {
	now := *row
	now.LastUsed = time.Now().UTC()
	c.sources[id] = &now
	if o := c.objects[objectID{id.tenant, row.Digest}]; o != nil {
		o.lastUsed = now.LastUsed
	}
	return &now
}

func (c *Cache) writeRow(id sourceID, row *sourceRow) {
	dir := filepath.Join(c.cfg.Dir, id.tenant, sourcesDir)
	if err := writeJSON(dir, id.key+".json", row); err != nil {
		c.log.Error("the data cache cannot write its index", "error", err)
	}
}

// makeRoom makes room for a number of bytes, and returns the paths to remove. ok is false if there is not enough room.
func (c *Cache) makeRoom(need int64) (trash []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if need > c.cfg.Capacity {
		return nil, false
	}
	if c.reserved+c.held()+need > c.cfg.Capacity {
		return nil, false // Do not evict anything for data that does not fit anyway.
	}
	for c.used+c.reserved+need > c.cfg.Capacity {
		one := c.oldest()
		if one == nil {
			return trash, false
		}
		trash = append(trash, one...)
	}
	c.reserved += need
	return trash, true
}

// held returns the size of the data that cannot be evicted.
func (c *Cache) held() (bytes int64) {
	for _, o := range c.objects {
		if len(o.holders) > 0 {
			bytes += o.size
		}
	}
	return bytes
}

// oldest removes the least recently used data from the index: partial transfers first.
func (c *Cache) oldest() []string {
	var part string
	for path, l := range c.left {
		if part == "" || l.at.Before(c.left[part].at) {
			part = path
		}
	}
	if part != "" {
		c.used -= c.left[part].size
		delete(c.left, part)
		return c.discard(part)
	}
	var victim *object
	for _, o := range c.objects {
		if len(o.holders) == 0 && (victim == nil || o.lastUsed.Before(victim.lastUsed)) {
			victim = o
		}
	}
	if victim == nil {
		return nil
	}
	c.stats.Evictions++
	return c.drop(victim)
}

// discardDamaged drops a damaged object, unless it is in use.
func (c *Cache) discardDamaged(o *object) []string {
	if len(o.holders) > 0 || c.objects[o.id] != o {
		return nil
	}
	return c.drop(o)
}

// drop removes an object from the index and moves it away.
func (c *Cache) drop(o *object) []string {
	c.used -= o.size
	delete(c.objects, o.id)
	for id, row := range c.sources {
		if id.tenant == o.id.tenant && row.Digest == o.id.digest {
			delete(c.sources, id)
			_ = os.Remove(filepath.Join(c.cfg.Dir, id.tenant, sourcesDir, id.key+".json"))
		}
	}
	_ = os.Remove(o.dir + ".json")
	return c.discard(o.dir)
}

// discard renames a file or directory that will be removed, which is fast; empty removes it.
func (c *Cache) discard(path string) []string {
	to, err := os.MkdirTemp(c.cfg.Dir, trashStart)
	if err == nil {
		err = os.Rename(path, filepath.Join(to, "old"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Error("the data cache cannot remove unused data", "path", path, "error", err)
		return []string{to, path}
	}
	return []string{to}
}

func (c *Cache) empty(trash []string) {
	for _, path := range slices.Compact(trash) {
		if path == "" {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			c.log.Error("the data cache cannot remove unused data", "path", path, "error", err)
		}
	}
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func writeJSON(dir, name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, name), text, 0o600)
}
