package checkpoints

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/archive"
)

// Opened is an open file of a checkpoint.
type Opened interface {
	io.ReaderAt
	io.Closer
}

// Source is a checkpoint to save.
type Source struct {
	// Registered is the digest under which the checkpoint was registered.
	Registered string
	// List lists the files. It is called before and after they are read, and must fail with ErrChanged if they are not
	// the registered ones.
	List func(context.Context) ([]File, error)
	// Open opens one of the files.
	Open func(path string) (Opened, error)
	// Workers is how many parts are sent at a time; 0: 4.
	Workers int
	// Wait is called before a number of bytes is sent; nil: sending is not delayed.
	Wait func(ctx context.Context, bytes int) error
	// Progress, if not nil, is called with the number of bytes that are in the archive.
	Progress func(done int64)
}

// Save puts a checkpoint below a key, unless it exists there already.
func Save(ctx context.Context, store archive.Store, key string, from Source) (*Saved, error) {
	old, err := Open(ctx, store, key)
	if err == nil && old.m.Registered == from.Registered {
		complete, err := old.complete(ctx)
		if complete || err != nil {
			return old, err
		}
	} else if err != nil && !errors.Is(err, archive.ErrNotFound) && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if from.Workers <= 0 {
		from.Workers = 4
	}
	s := &save{Source: from, store: store, key: key}
	s.m = manifest{Version: 1, PartSize: partSize, Registered: from.Registered}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return Open(ctx, store, key)
}

// complete reports whether all parts exist.
func (s *Saved) complete(ctx context.Context) (bool, error) {
	have, err := listed(ctx, s.store, s.key)
	if err != nil {
		return false, err
	}
	for part, size := range s.m.parts() {
		if at, ok := have[part]; !ok || at != size {
			return false, nil
		}
	}
	return true, nil
}

// listed returns the sizes of the parts below a key, by name.
func listed(ctx context.Context, store archive.Store, key string) (map[string]int64, error) {
	objects, err := store.List(ctx, key+"/"+partsFolder)
	if err != nil {
		return nil, err
	}
	have := make(map[string]int64, len(objects))
	for _, o := range objects {
		have[strings.TrimPrefix(o.Key, key+"/"+partsFolder)] = o.Size
	}
	return have, nil
}

// save is the state of one Save.
type save struct {
	Source
	store archive.Store
	key   string
	m     manifest

	mu   sync.Mutex
	done int64
}

func (s *save) run(ctx context.Context) error {
	if err := archive.Sweep(s.store, s.key); err != nil {
		return err
	}
	files, err := s.list(ctx)
	if err != nil {
		return err
	}
	s.m.Files = files
	if err := each(ctx, s.Workers, len(files), func(ctx context.Context, i int) error { return s.measure(ctx, &files[i]) }); err != nil {
		return err
	}
	s.m.Digest = digestOf(files)
	if err := s.put(ctx); err != nil {
		return err
	}
	again, err := s.list(ctx)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(files, again, func(a, b File) bool { return a.Path == b.Path && a.Size == b.Size && a.Link == b.Link }) {
		return ErrChanged
	}
	text, err := json.Marshal(&s.m)
	if err != nil {
		return err
	}
	return s.store.Put(ctx, s.key+"/"+manifestName, bytes.NewReader(text), int64(len(text)))
}

func (s *save) list(ctx context.Context) ([]File, error) {
	files, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, checkFiles(files)
}

// measure computes the digests of a file.
func (s *save) measure(ctx context.Context, f *File) error {
	if f.Link != "" {
		return nil
	}
	file, err := s.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	whole := sha256.New()
	for at := int64(0); at < f.Size; at += partSize {
		part := sha256.New()
		size := min(partSize, f.Size-at)
		n, err := io.Copy(io.MultiWriter(whole, part), reading{ctx, io.NewSectionReader(file, at, size)})
		if err != nil {
			return err
		}
		if n != size {
			return ErrChanged
		}
		f.Parts = append(f.Parts, hex.EncodeToString(part.Sum(nil)))
	}
	f.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return nil
}

// piece is a part to put.
type piece struct {
	path     string
	at, size int64
	digest   string
}

// put puts the missing parts, and removes parts of other contents that an earlier try has put.
func (s *save) put(ctx context.Context) error {
	have, err := listed(ctx, s.store, s.key)
	if err != nil {
		return err
	}
	var pieces []piece
	wanted := make(map[string]bool)
	for i := range s.m.Files {
		f := &s.m.Files[i]
		for n, digest := range f.Parts {
			at := int64(n) * partSize
			p := piece{f.Path, at, min(partSize, f.Size-at), digest}
			if size, ok := have[digest]; wanted[digest] || ok && size == p.size {
				s.arrived(p.size)
			} else {
				pieces = append(pieces, p)
			}
			wanted[digest] = true
		}
	}
	for digest := range have {
		if !wanted[digest] {
			if err := s.store.Delete(ctx, s.key+"/"+partsFolder+digest); err != nil {
				return err
			}
		}
	}
	return each(ctx, s.Workers, len(pieces), func(ctx context.Context, i int) error { return s.send(ctx, pieces[i]) })
}

// send puts one part. It is kept only if the bytes that were read have the digest in its name.
func (s *save) send(ctx context.Context, p piece) error {
	file, err := s.Open(p.path)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	body := &outgoing{
		ctx: ctx, from: io.NewSectionReader(file, p.at, p.size), left: p.size, digest: p.digest, sum: sha256.New(), wait: s.Wait,
		moved: func() { watchdog.Reset(stall) },
	}
	if err := s.store.Put(ctx, s.key+"/"+partsFolder+p.digest, body, p.size); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		return err
	}
	s.arrived(p.size)
	return nil
}

// arrived counts a part that is in the archive.
func (s *save) arrived(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += size
	if s.Progress != nil {
		s.Progress(s.done)
	}
}

// stall is how long an archive may take to accept some bytes of a part.
const stall = 2 * time.Minute

var errStalled = fmt.Errorf("the archive took nothing for %s", stall)

// outgoing reads a part while it is put, no faster than wait allows. It fails before the last bytes if the digest of
// the part is wrong, so that the archive does not store the object.
type outgoing struct {
	ctx    context.Context
	from   io.Reader
	left   int64
	digest string
	sum    hash.Hash
	wait   func(ctx context.Context, bytes int) error // nil: no limit
	moved  func()
}

// Read implements io.Reader.
func (o *outgoing) Read(p []byte) (int, error) {
	o.moved()
	n, err := o.from.Read(p[:min(len(p), 1<<20)])
	o.sum.Write(p[:n])
	o.left -= int64(n)
	switch {
	case o.left > 0 && errors.Is(err, io.EOF), o.left == 0 && n > 0 && hex.EncodeToString(o.sum.Sum(nil)) != o.digest:
		return 0, ErrChanged
	case o.wait != nil && n > 0:
		if stopped := o.wait(o.ctx, n); stopped != nil {
			return 0, stopped
		}
	}
	if stopped := o.ctx.Err(); stopped != nil {
		return 0, stopped
	}
	return n, err
}

// reading is a reader that fails when its context ends.
type reading struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// each calls do for all numbers below n, some at a time, and returns the first error.
func each(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan int)
	for range min(workers, n) {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
