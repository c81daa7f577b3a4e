package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
)

const walMetaFile = metadb.FileName

// openWALSource checks the checksums of all segments, and opens a copy: opening one repairs it, and what is looked at
// here must stay as it is.
func openWALSource(r *Report, dir string) (*source, error) {
	s := &source{close: func() {}}
	walk, err := walkBolt(filepath.Join(dir, walMetaFile))
	if err != nil {
		return nil, err
	}
	damaged := false
	for _, f := range walk.flaws {
		r.flaw(inStore, 0, 0, "%s: %s", walMetaFile, f.Problem)
		damaged = true
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return nil, fmt.Errorf("look for segments: %w", err)
	}
	for _, name := range names {
		if err := guarded(func() error { return walkSegment(name, r.note) }); err != nil {
			r.flaw(inStore, 0, 0, "segment %s: %v", filepath.Base(name), err)
			damaged = true
		}
	}
	if damaged {
		return s, nil
	}
	copied, err := os.MkdirTemp("", "mind-verify-")
	if err != nil {
		return nil, fmt.Errorf("copy the log: %w", err)
	}
	s.close = func() { _ = os.RemoveAll(copied) }
	for _, name := range append(names, filepath.Join(dir, walMetaFile)) {
		if err := copyFile(filepath.Join(copied, filepath.Base(name)), name); err != nil {
			s.close()
			return nil, fmt.Errorf("copy the log: %w", err)
		}
	}
	var log *wal.WAL
	err = guarded(func() (err error) {
		log, err = wal.Open(copied, wal.WithLogger(newBridge(Config{}.withDefaults().Logger)))
		return err
	})
	if err != nil {
		r.flaw(inStore, 0, 0, "the log does not open: %v", err)
		return s, nil
	}
	s.log = log
	s.close = func() {
		_ = guarded(log.Close)
		_ = os.RemoveAll(copied)
	}
	first, err := log.FirstIndex()
	last, lastErr := log.LastIndex()
	if err := errors.Join(err, lastErr); err != nil {
		r.flaw(inLog, 0, 0, "its ends cannot be read: %v", err)
		return s, nil
	}
	for i := first; first > 0 && i <= last; i++ {
		s.indices = append(s.indices, i)
	}
	return s, nil
}

// The format of a segment: a header, then frames of 8 bytes and what they hold, filled up to 8 bytes.
const (
	segmentHeader = 32
	frameHeader   = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNewest marks damage that a crash may have done: nobody was told yet that this write is on the disk.
var errNewest = errors.New("unless the machine crashed while it was written")

// walkSegment holds every commit of a segment to its checksum. What follows the last commit and is no whole commit is a
// write that a crash cut short, unless another commit comes after it: then it was whole once.
func walkSegment(name string, note func(format string, args ...any)) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if len(b) < segmentHeader {
		return fmt.Errorf("it is cut off after %d bytes: %w", len(b), errNewest)
	}
	from, end := 0, segmentHeader // of the commits so far; the first one counts the header in
	for {
		at, whole, err := nextCommit(b, from, end)
		if whole {
			from, end = at, at
			continue
		}
		if later, ok := laterCommit(b, end); ok {
			if err == nil {
				err = errors.New("a commit is missing")
			}
			return fmt.Errorf("bytes %d to %d are damaged, and what comes after them is whole (%w)", end, later, err)
		}
		switch {
		case err == nil: // nothing more was begun
		case at < 0:
			return fmt.Errorf("%w, %w", err, errNewest)
		default:
			note("segment %s: what follows its first %d bytes is a write that was not finished; it is dropped at the next start", filepath.Base(name), end)
		}
		return nil
	}
}

// laterCommit finds a commit that another, whole one follows.
func laterCommit(b []byte, from int) (at int, ok bool) {
	for at = from; at+frameHeader <= len(b); at += frameHeader {
		if binary.LittleEndian.Uint32(b[at:]) != uint32(segment.FrameCommit) {
			continue
		}
		if _, whole, err := nextCommit(b, at+frameHeader, at+frameHeader); err == nil && whole {
			return at, true
		}
	}
	return 0, false
}

// nextCommit goes from one commit to the end of the next. whole is false when there is none: without an error nothing was
// begun. at is negative when the commit is there and its checksum is wrong.
func nextCommit(b []byte, from, at int) (end int, whole bool, err error) {
	begin := at
	for at+frameHeader <= len(b) {
		kind, n := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
		switch kind {
		case uint32(segment.FrameInvalid):
			if at == begin && n == 0 {
				return at, false, nil
			}
			return at, false, fmt.Errorf("the write at byte %d has no end", begin)
		case uint32(segment.FrameEntry), uint32(segment.FrameIndex):
			at += frameHeader + (int(n)+7)&^7
		case uint32(segment.FrameCommit):
			if crc32.Checksum(b[from:at], castagnoli) != n {
				return -1, false, fmt.Errorf("the checksum of bytes %d to %d is wrong", from, at)
			}
			return at + frameHeader, true, nil
		default:
			return at, false, fmt.Errorf("byte %d begins a frame of an unknown kind", at)
		}
	}
	if at == begin {
		return at, false, nil
	}
	return at, false, fmt.Errorf("the write at byte %d is cut off", begin)
}

// copyFile leaves holes where there is nothing: segments are as long as they may become from the beginning.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	at, block, nothing := int64(0), make([]byte, 64<<10), make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = io.ReadFull(in, block)
		if !bytes.Equal(block[:n], nothing[:n]) {
			if _, failed := out.WriteAt(block[:n], at); failed != nil {
				err = failed
			}
		}
		at += int64(n)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = out.Truncate(at)
	}
	return errors.Join(err, out.Close())
}
