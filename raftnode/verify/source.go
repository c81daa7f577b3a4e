package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"

	"github.com/mindcoordinator/mind/raftnode/hostlog"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// source is a log and votes that are only read.
type source struct {
	log   raft.LogStore    // nil: too damaged to be read
	votes raft.StableStore // nil: too damaged, too
	// indices lists the indices of the entries, in order.
	indices []uint64
	close   func()
}

func openSource(r *Report, place store.Place, dir string) (*source, error) {
	s := &source{close: func() {}}
	if place.VotesInWAL {
		return s, s.openWAL(r, dir, true)
	}
	if err := s.openBolt(r, store.BoltPath(dir), place.Log == store.Bolt); err != nil || place.Log == store.Bolt {
		return s, err
	}
	if err := s.openWAL(r, dir, false); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// sourceLockTime limits the wait for BoltDB's lock, which readers share.
const sourceLockTime = 10 * time.Second

// openBolt checks every page that the newest commit reaches before it opens the file with BoltDB, which panics on a
// damaged page, reads beyond the mapped file or does not end.
func (s *source) openBolt(r *Report, path string, logs bool) error {
	walk, err := store.WalkBolt(path)
	if err != nil {
		return err
	}
	if logs {
		s.indices = walk.Indices()
	}
	sound := !walk.Unreadable
	for _, f := range walk.Flaws {
		r.flaw(inStore, f.Index, 0, "%s", f.Problem)
	}
	for _, name := range []string{"logs", "conf"} {
		if !walk.Has(name) && !walk.Unreadable {
			r.flaw(inStore, 0, 0, "there is no bucket %q: this is not the log of a coordinator, or it was never begun", name)
			sound = false
		}
	}
	if !sound {
		return nil
	}
	var bolt *raftboltdb.BoltStore
	err = Guarded(func() (err error) {
		bolt, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: sourceLockTime}})
		return err
	})
	if err != nil {
		r.flaw(inStore, 0, 0, "BoltDB does not open it: %v", err)
		return nil
	}
	s.votes = bolt
	if logs {
		s.log = bolt
	}
	s.close = func() { _ = Guarded(bolt.Close) }
	return nil
}

// openWAL checks the checksums of all segments, and opens a copy of the log, because opening a log repairs it, and the
// original must not change.
func (s *source) openWAL(r *Report, data string, votes bool) error {
	dir := store.WALPath(data)
	meta := filepath.Join(dir, metadb.FileName)
	walk, err := store.WalkBolt(meta)
	if err != nil {
		return err
	}
	damaged := false
	for _, f := range walk.Flaws {
		r.flaw(inStore, 0, 0, "%s: %s", metadb.FileName, f.Problem)
		damaged = true
	}
	if damaged {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return fmt.Errorf("look for segments: %w", err)
	}
	copied, err := os.MkdirTemp("", "mind-verify-")
	if err != nil {
		return fmt.Errorf("copy the log: %w", err)
	}
	before := s.close
	s.close = func() {
		before()
		_ = os.RemoveAll(copied)
	}
	for _, name := range append(names, meta) {
		if err := copyFile(filepath.Join(copied, filepath.Base(name)), name); err != nil {
			return fmt.Errorf("copy the log: %w", err)
		}
	}
	var segments []store.Segment
	err = Guarded(func() (err error) {
		segments, err = store.CheckSegments(copied)
		return err
	})
	if err != nil {
		r.flaw(inStore, 0, 0, "the log does not open: %v", err)
		return nil
	}
	for _, seg := range segments {
		if seg.Err != nil {
			r.flaw(inStore, 0, 0, "segment %s: %v", filepath.Base(seg.Name), seg.Err)
			damaged = true
		} else if seg.Torn {
			r.note("segment %s: what follows its first %d bytes is a write that was not finished; it is dropped at the next start", filepath.Base(seg.Name), seg.End)
		}
	}
	if damaged {
		return nil
	}
	var log *wal.WAL
	err = Guarded(func() (err error) {
		log, err = wal.Open(copied, wal.WithLogger(hostlog.New(slog.New(slog.DiscardHandler))))
		return err
	})
	if err != nil {
		r.flaw(inStore, 0, 0, "the log does not open: %v", err)
		return nil
	}
	s.log = log
	if votes {
		s.votes = log
	}
	s.close = func() {
		before()
		_ = Guarded(log.Close)
		_ = os.RemoveAll(copied)
	}
	first, err := log.FirstIndex()
	last, lastErr := log.LastIndex()
	if err := errors.Join(err, lastErr); err != nil {
		r.flaw(inLog, 0, 0, "its ends cannot be read: %v", err)
		return nil
	}
	for i := first; first > 0 && i <= last; i++ {
		s.indices = append(s.indices, i)
	}
	if s.votes != nil {
		if err := Guarded(func() error { return store.CheckReached(s.votes, log) }); err != nil {
			r.flaw(inLog, last+1, 0, "%v", err)
		}
	}
	return nil
}

// copyFile copies a file and leaves holes in place of zeros, because a segment has its full length from the beginning.
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
