package datacache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
	"github.com/mindcoordinator/mind/durable"
)

var (
	errShort   = errors.New("the connection ended early")
	errDigest  = errors.New("the received data does not match the SHA-256 of the source")
	errStalled = errors.New("no data arrived for a while")
)

// file fetches one file, and retries as long as a try gets further than those before it.
func (f *flight) file(ctx context.Context, i int) (keptFile, error) {
	p := partial{flight: f, remote: &f.source.Files[i], done: f.part(i), path: f.part(i) + ".part"}
	kept, err := p.finished(ctx)
	if err == nil {
		return kept, nil
	}
	pauses := f.cache.pauses()
	most := int64(0)
	for try := 1; ; try++ {
		kept, err := p.fetch(ctx)
		switch {
		case err == nil:
			return kept, nil
		case ctx.Err() != nil:
			return kept, ctx.Err()
		case !sources.Broken(err):
			return kept, err
		case p.offset > most:
			most, try = p.offset, 0
			pauses.Reset()
		case try >= f.cache.cfg.Tries && f.source.Archived && damaged(err):
			return kept, sources.Refused("the archive's copy of it is damaged: %v (after %d tries)", err, try)
		case try >= f.cache.cfg.Tries:
			return kept, fmt.Errorf("%w (after %d tries)", err, try)
		}
		f.cache.log.Info("a transfer broke and is resumed", "source", f.path, "file", i, "at", p.offset, "error", err)
		if wait.For(ctx, pauses.Next()); ctx.Err() != nil {
			return kept, ctx.Err()
		}
	}
}

// damaged reports whether an archive has answered, and its copy is not whole. Reading it again does not help.
func damaged(err error) bool {
	return errors.Is(err, checkpoints.ErrDamaged) || errors.Is(err, archive.ErrNotFound) || errors.Is(err, errDigest)
}

// onDisk explains a full disk.
func (c *Cache) onDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return sources.Faultf("the disk of node %s is full: free space there, or lower data_cache_bytes of its agent so that older data is removed", c.cfg.Node)
	}
	return err
}

// connectTries is how often a connection to a service is tried.
const connectTries = 3

// tries returns how often a request that fails like this is tried. A service that answers is only busy; if there is no
// connection, mostly the name is wrong or the network is closed.
func (c *Cache) tries(err error) int {
	var broken *net.OpError
	if errors.As(err, &broken) && broken.Op == "dial" {
		return min(connectTries, c.cfg.Tries)
	}
	return c.cfg.Tries
}

// partial is a file in transfer.
type partial struct {
	flight     *flight
	remote     *sources.File
	path, done string
	offset     int64
	sum        hash.Hash // of the file up to offset
	counted    int64     // how much of offset is counted in the flight's progress
}

// count reports the file's progress to the flight.
func (p *partial) count(offset int64) {
	p.flight.mu.Lock()
	p.flight.here += offset - p.counted
	p.flight.mu.Unlock()
	p.counted = offset
}

// finished accepts a file that an earlier transfer had completed.
func (p *partial) finished(ctx context.Context) (keptFile, error) {
	info, err := os.Lstat(p.done)
	if err != nil {
		return keptFile{}, err
	}
	sum, err := fileDigest(ctx, p.done)
	if err == nil && (p.remote.Size >= 0 && p.remote.Size != info.Size() || p.remote.SHA256 != "" && p.remote.SHA256 != sum) {
		err = errShort
	}
	if err == nil {
		p.count(info.Size())
	}
	return keptFile{Name: p.remote.Name, Size: info.Size(), SHA256: sum}, err
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
	body, from, err := p.remote.Open(ctx, p.offset)
	if err != nil {
		return kept, err
	}
	defer body.Close()
	if from != p.offset {
		if from != 0 {
			return kept, fmt.Errorf("the server was asked for bytes from %d and sent bytes from %d", p.offset, from)
		}
		if err := p.restart(file); err != nil {
			return kept, err
		}
	}
	if err := p.copy(ctx, cancel, file, body); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		// The received bytes are kept and included in the digest.
		return kept, err
	}
	sum := hex.EncodeToString(p.sum.Sum(nil))
	switch {
	case p.remote.Size >= 0 && p.offset != p.remote.Size:
		return kept, fmt.Errorf("%w: %d of %d bytes arrived", errShort, p.offset, p.remote.Size)
	case p.remote.SHA256 != "" && sum != p.remote.SHA256:
		return kept, errors.Join(errDigest, p.restart(file))
	}
	if err := errors.Join(file.Chmod(0o444), file.Sync(), file.Close()); err != nil {
		return kept, err
	}
	if err := durable.Rename(p.path, p.done); err != nil {
		return kept, err
	}
	return keptFile{Name: p.remote.Name, Size: p.offset, SHA256: sum}, nil
}

// begin resumes at the end of the partial file, if possible.
func (p *partial) begin(ctx context.Context, file *os.File) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if !p.remote.Strong || p.remote.Size >= 0 && end > p.remote.Size {
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

// copy writes the received bytes. It ends when nothing arrives for too long.
func (p *partial) copy(ctx context.Context, cancel context.CancelCauseFunc, file *os.File, body io.Reader) error {
	stall := p.flight.cache.cfg.Stall
	watchdog := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			watchdog.Reset(stall)
			if p.remote.Size >= 0 && p.offset+int64(n) > p.remote.Size {
				return errors.Join(fmt.Errorf("the server sent more than the announced %d bytes", p.remote.Size), p.restart(file))
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
