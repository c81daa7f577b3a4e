package datacache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/datacache/reach"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/durable"
)

// remoteFile is one file of a source.
type remoteFile struct {
	name string
	size int64 // -1: not known
	// sha256 is what the source says of it; empty: nothing.
	sha256 string
	// strong: what open returns from an offset on continues what came before.
	strong bool
	open   func(ctx context.Context, offset int64) (body io.ReadCloser, from int64, err error)
}

var (
	errShort   = errors.New("the connection ended early")
	errStalled = errors.New("no byte came for a while")
)

// file fetches one file, in as many tries as bring it further.
func (f *flight) file(ctx context.Context, i int) (keptFile, error) {
	p := partial{flight: f, remote: &f.source.files[i], done: f.part(i), path: f.part(i) + ".part"}
	kept, err := p.finished(ctx)
	if err == nil {
		return kept, nil
	}
	pauses := f.cache.pauses()
	for try := 1; ; try++ {
		before := p.offset
		kept, err := p.fetch(ctx)
		switch {
		case err == nil:
			return kept, nil
		case ctx.Err() != nil:
			return kept, ctx.Err()
		case !transient(err):
			return kept, err
		case p.offset > before:
			try = 0
			pauses.Reset()
		case try >= f.cache.cfg.Tries:
			return kept, fmt.Errorf("%w (after %d tries)", err, try)
		}
		f.cache.log.Info("a transfer broke and goes on", "source", f.path, "file", i, "at", p.offset, "error", err)
		if wait.For(ctx, pauses.Next()); ctx.Err() != nil {
			return kept, ctx.Err()
		}
	}
}

// onDisk makes a sentence of a disk that is full before the cache is.
func (c *Cache) onDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return faultf("the disk of node %s has no room left for it: make room there, or lower data_cache_bytes of its agent so that older data makes way", c.cfg.Node)
	}
	return err
}

// transient says whether a transfer may go better the next time. What the source refuses it will refuse again.
func transient(err error) bool {
	var f fault
	var path *os.PathError
	return !errors.As(err, &f) && !errors.As(err, new(reach.Refusal)) && !errors.As(err, &path) && !errors.Is(err, errChanged)
}

// partial is a file on its way.
type partial struct {
	flight     *flight
	remote     *remoteFile
	path, done string
	offset     int64
	sum        hash.Hash // of what is there up to offset
	counted    int64     // of offset, in what the flight has
}

// count lets the flight know how far the file is.
func (p *partial) count(offset int64) {
	p.flight.mu.Lock()
	p.flight.here += offset - p.counted
	p.flight.mu.Unlock()
	p.counted = offset
}

// finished takes up a file that an earlier transfer had finished.
func (p *partial) finished(ctx context.Context) (keptFile, error) {
	info, err := os.Lstat(p.done)
	if err != nil {
		return keptFile{}, err
	}
	sum, err := fileDigest(ctx, p.done)
	if err == nil && (p.remote.size >= 0 && p.remote.size != info.Size() || p.remote.sha256 != "" && p.remote.sha256 != sum) {
		err = errShort
	}
	if err == nil {
		p.count(info.Size())
	}
	return keptFile{Name: p.remote.name, Size: info.Size(), SHA256: sum}, err
}

func (p *partial) fetch(ctx context.Context) (kept keptFile, err error) {
	file, err := os.OpenFile(p.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return kept, err
	}
	defer file.Close()
	if err := p.begin(ctx, file); err != nil {
		return kept, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, from, err := p.remote.open(ctx, p.offset)
	if err != nil {
		return kept, err
	}
	defer body.Close()
	if from != p.offset {
		if from != 0 {
			return kept, fmt.Errorf("it was asked for bytes from %d on and sent them from %d on", p.offset, from)
		}
		if err := p.restart(file); err != nil {
			return kept, err
		}
	}
	if err := p.copy(ctx, cancel, file, body); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		// What came is kept, and known to the digest.
		return kept, err
	}
	sum := hex.EncodeToString(p.sum.Sum(nil))
	switch {
	case p.remote.size >= 0 && p.offset != p.remote.size:
		return kept, fmt.Errorf("%w: %d of %d bytes came", errShort, p.offset, p.remote.size)
	case p.remote.sha256 != "" && sum != p.remote.sha256:
		return kept, errors.Join(errors.New("what came is not what the source says it is: its SHA-256 is another"), p.restart(file))
	}
	if err := errors.Join(file.Chmod(0o444), file.Sync(), file.Close()); err != nil {
		return kept, err
	}
	if err := durable.Rename(p.path, p.done); err != nil {
		return kept, err
	}
	return keptFile{Name: p.remote.name, Size: p.offset, SHA256: sum}, nil
}

// begin goes on at the end of what is there, if that may be.
func (p *partial) begin(ctx context.Context, file *os.File) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if !p.remote.strong || p.remote.size >= 0 && end > p.remote.size {
		return p.restart(file)
	}
	if p.sum != nil && p.offset == end {
		return nil
	}
	// An earlier process wrote it, or a write failed half way.
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p.sum = sha256.New()
	p.offset, err = io.Copy(p.sum, reading{ctx, file})
	p.count(p.offset)
	return err
}

func (p *partial) restart(file *os.File) error {
	p.sum, p.offset = sha256.New(), 0
	p.count(0)
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// copy writes what comes. It ends when nothing comes for too long.
func (p *partial) copy(ctx context.Context, cancel context.CancelCauseFunc, file *os.File, body io.Reader) error {
	stall := p.flight.cache.cfg.Stall
	watchdog := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			watchdog.Reset(stall)
			if p.remote.size >= 0 && p.offset+int64(n) > p.remote.size {
				return errors.Join(fmt.Errorf("it sends more than the %d bytes that it names", p.remote.size), p.restart(file))
			}
			if err := p.flight.grow(int64(n)); err != nil {
				return err
			}
			if _, err := file.Write(buf[:n]); err != nil {
				return err
			}
			p.sum.Write(buf[:n])
			p.offset += int64(n)
			p.count(p.offset)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}
