package store

import (
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// segments is a log of the kind WAL, with two of the library's gaps closed.
type segments struct {
	*wal.WAL
	log *slog.Logger
}

// GetLog implements raft.LogStore. The library goes on to show entries of the newest segment that were deleted.
func (s segments) GetLog(index uint64, entry *raft.Log) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	if index < first {
		return raft.ErrLogNotFound
	}
	return s.WAL.GetLog(index, entry)
}

// StoreLog implements raft.LogStore.
func (s segments) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore. Raft goes on behind a snapshot that it has installed, and empties the log before. When
// it was killed in between, or could not, the log still ends before the snapshot. The library would refuse the gap for ever.
func (s segments) StoreLogs(entries []*raft.Log) error {
	if len(entries) > 0 {
		if err := s.closeGap(entries[0].Index); err != nil {
			return err
		}
	}
	return s.WAL.StoreLogs(entries)
}

func (s segments) closeGap(next uint64) error {
	last, err := s.LastIndex()
	if err != nil || last == 0 || next <= last+1 {
		return err
	}
	first, err := s.FirstIndex()
	if err == nil {
		err = s.DeleteRange(first, last)
	}
	if err != nil {
		return fmt.Errorf("remove the entries that a snapshot has: %w", err)
	}
	s.log.Info("entries that a snapshot has are removed from the log", "first", first, "last", last, "goes_on_at", next)
	return nil
}
