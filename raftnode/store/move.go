package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"

	"github.com/mindcoordinator/mind/durable"
)

const (
	// copyBytes and copyEntries limit the size and number of entries in one write when a log is moved.
	copyBytes   = 4 << 20
	copyEntries = 1024
	// tellEvery is the time between two progress messages of a move.
	tellEvery = 5 * time.Second
)

// move moves the log and the votes to the places in the configuration. If it is interrupted at any step, the next call
// continues or begins again: until raft.db is renamed the old places count, and afterwards the new ones.
//
//	found                             action
//	nothing                           raft.db is made, with an empty log
//	votes in wal-meta.db              raft.db is made with these votes and the mark; wal-meta.db is marked
//	Bolt, and WAL is wanted           the log is written to wal/; raft.db is replaced by one with the votes and the mark
//	WAL, and Bolt is wanted           raft.db is replaced by one with the votes and the log
//	Bolt, and Bolt is wanted          the rest of wal/ is removed
func (c Config) move(place Place) error {
	for _, left := range []string{asidePath(c.Dir), oldWALPath(c.Dir)} {
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	if err := c.check(place); err != nil {
		return err
	}
	if place.Log == "" {
		if err := c.writeBolt(votes{}, false, nil); err != nil {
			return err
		}
		place.Log = Bolt
	}
	if place.VotesInWAL {
		if err := c.takeVotes(); err != nil {
			return fmt.Errorf("move the votes from %s: %w", WALPath(c.Dir), err)
		}
	}
	if place.Log == WAL && !place.walMarked {
		if _, err := os.Stat(filepath.Join(WALPath(c.Dir), walMetaFile)); errors.Is(err, os.ErrNotExist) {
			return c.checkWAL()
		}
		if err := c.markWAL(); err != nil {
			return err
		}
	}
	var err error
	switch {
	case place.Log == Bolt && c.Log == WAL:
		err = c.toWAL()
	case place.Log == WAL && c.Log == Bolt:
		err = c.toBolt()
	}
	if err != nil {
		return fmt.Errorf("move the log from %s to %s: %w", place.Log, c.Log, err)
	}
	if c.Log == Bolt {
		return c.removeWAL()
	}
	return nil
}

func asidePath(dir string) string  { return filepath.Join(dir, "raft.db.new") }
func oldWALPath(dir string) string { return filepath.Join(dir, "wal.old") }

func (c Config) markWAL() error {
	return c.do("mark wal-meta.db", func() error { return setMark(filepath.Join(WALPath(c.Dir), walMetaFile), walVotes) })
}

func (c Config) do(what string, f func() error) error {
	if err := c.step(what); err != nil {
		return err
	}
	return f()
}

// check returns an error if data to be moved is damaged. A log in wal/ that stays there is checked when it is opened.
func (c Config) check(p Place) error {
	if p.Log != "" && !p.VotesInWAL {
		if err := checkBolt(BoltPath(c.Dir)); err != nil {
			return err
		}
	}
	if p.VotesInWAL || p.Log == WAL && c.Log == Bolt {
		return c.checkWAL()
	}
	return nil
}

// votes holds the current term of a replica and its last vote.
type votes struct {
	term, votedTerm uint64
	votedFor        []byte
}

// The keys of the votes in raft.
var (
	keyTerm      = []byte("CurrentTerm")
	keyVotedTerm = []byte("LastVoteTerm")
	keyVotedFor  = []byte("LastVoteCand")
)

func readVotes(s raft.StableStore) (v votes, err error) {
	number := func(key []byte) uint64 {
		n, readErr := s.GetUint64(key)
		err = errors.Join(err, unlessUnset(readErr))
		return n
	}
	v.term, v.votedTerm = number(keyTerm), number(keyVotedTerm)
	var readErr error
	v.votedFor, readErr = s.Get(keyVotedFor)
	if err = errors.Join(err, unlessUnset(readErr)); err != nil {
		return v, fmt.Errorf("read the votes: %w", err)
	}
	return v, nil
}

// unlessUnset returns nil for the error about a key that was never set. The stores return it with this text, and
// without a type.
func unlessUnset(err error) error {
	if err != nil && err.Error() == "not found" {
		return nil
	}
	return err
}

func (v votes) write(s raft.StableStore) error {
	var errs []error
	if v.term > 0 {
		errs = append(errs, s.SetUint64(keyTerm, v.term))
	}
	if v.votedTerm > 0 {
		errs = append(errs, s.SetUint64(keyVotedTerm, v.votedTerm))
	}
	if len(v.votedFor) > 0 {
		errs = append(errs, s.Set(keyVotedFor, v.votedFor))
	}
	return errors.Join(errs...)
}

// writeBolt replaces raft.db by a new one with the votes, with the mark if marked is set, and with the entries of a log
// if entries is not nil.
func (c Config) writeBolt(v votes, marked bool, entries raft.LogStore) error {
	aside := asidePath(c.Dir)
	err := c.do("make raft.db.new", func() error {
		s, err := openBolt(aside)
		if err != nil {
			return err
		}
		err = v.write(s)
		if err == nil && entries != nil {
			err = c.copyLog(s, entries)
		}
		return errors.Join(err, s.Close())
	})
	if err == nil && marked {
		err = c.do("mark raft.db.new", func() error { return setMark(aside, boltVotes) })
	}
	if err != nil {
		return err
	}
	return c.do("rename raft.db.new", func() error { return durable.Rename(aside, BoltPath(c.Dir)) })
}

// takeVotes moves the votes from wal-meta.db, where earlier versions kept them, to raft.db.
func (c Config) takeVotes() error {
	log, err := c.openUnwatched()
	if err != nil {
		return err
	}
	v, err := readVotes(log)
	if err = errors.Join(err, log.Close()); err != nil {
		return err
	}
	return c.writeBolt(v, true, nil)
}

// toWAL moves the log from raft.db to wal/.
func (c Config) toWAL() error {
	from, err := openBolt(BoltPath(c.Dir))
	if err != nil {
		return err
	}
	v, err := readVotes(from)
	if err == nil {
		err = c.writeWAL(from)
	}
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	// With the rename in writeBolt the log in wal/ becomes the log of the replica.
	return c.writeBolt(v, true, nil)
}

// writeWAL makes wal/ with the entries of another log. It first removes a folder that an interrupted move has left.
func (c Config) writeWAL(entries raft.LogStore) error {
	if err := c.removeWAL(); err != nil {
		return err
	}
	dir := WALPath(c.Dir)
	if err := c.do("make wal/", func() error { return durable.MkdirAll(dir, 0o700) }); err != nil {
		return err
	}
	var log *wal.WAL
	err := c.do("begin the first segment", func() (err error) {
		log, err = c.openUnwatched()
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(c.copyLog(log, entries), log.Close()); err != nil {
		return err
	}
	if err := c.markWAL(); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// toBolt moves the log from wal/ to raft.db.
func (c Config) toBolt() error {
	old, err := openBolt(BoltPath(c.Dir))
	if err != nil {
		return err
	}
	v, err := readVotes(old)
	reached, reachedErr := readReached(old)
	if err = errors.Join(err, reachedErr, old.Close()); err != nil {
		return err
	}
	log, err := c.openUnwatched()
	if err != nil {
		return err
	}
	if err := checkReached(reached, log); err != nil {
		return errors.Join(damaged(WALPath(c.Dir), err), log.Close())
	}
	return errors.Join(c.writeBolt(v, false, log), log.Close())
}

func (c Config) removeWAL() error {
	dir := WALPath(c.Dir)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// The folder is renamed first, because a folder that is removed halfway would be misread.
	old := oldWALPath(c.Dir)
	return c.do("remove wal/", func() error {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
		if err := durable.Rename(dir, old); err != nil {
			return err
		}
		if err := c.step("remove wal.old/"); err != nil {
			return err
		}
		return os.RemoveAll(old)
	})
}

// copyLog copies all entries of one log to another, empty one, and compares them.
func (c Config) copyLog(to, from raft.LogStore) error {
	first, err := from.FirstIndex()
	last, lastErr := from.LastIndex()
	if err := errors.Join(err, lastErr); err != nil {
		return fmt.Errorf("find the ends of the log: %w", err)
	}
	if first == 0 || last < first {
		return nil
	}
	began := time.Now()
	c.Logger.Info("moving the log", "to", c.Log, "entries", last-first+1, "first", first, "last", last)
	told := began
	for next := first; next <= last; {
		var batch []*raft.Log
		for size := 0; next <= last && size < copyBytes && len(batch) < copyEntries; next++ {
			entry, err := readEntry(from, next)
			if err != nil {
				return err
			}
			batch, size = append(batch, entry), size+len(entry.Data)
		}
		if err := c.do("copy entries", func() error { return to.StoreLogs(batch) }); err != nil {
			return fmt.Errorf("write entries %d to %d: %w", batch[0].Index, next-1, err)
		}
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			c.Logger.Info("moving the log", "to", c.Log, "entries", last-first+1, "written", next-first)
		}
	}
	for index := first; index <= last; index++ {
		want, err := readEntry(from, index)
		if err != nil {
			return err
		}
		got, err := readEntry(to, index)
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) {
			return fmt.Errorf("read back: entry %d is not what was written", index)
		}
	}
	c.Logger.Info("the log is copied", "to", c.Log, "entries", last-first+1, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

func readEntry(log raft.LogStore, index uint64) (*raft.Log, error) {
	entry := &raft.Log{}
	if err := log.GetLog(index, entry); err != nil {
		return nil, fmt.Errorf("read entry %d: %w", index, err)
	}
	if entry.Index != index {
		return nil, fmt.Errorf("read entry %d: it says that it is entry %d", index, entry.Index)
	}
	return entry, nil
}
