// Package tasklog stores the output of one task.
//
// Contract: one Writer (in the task's shim) appends lines to segment files in one directory; any number of Readers, in
// other processes, read them while they grow. A record is one line of text (package record), from stdout, from stderr,
// or a remark by Mind. A segment is named after the offset of its first byte in the whole log, including removed
// segments. So an offset stays valid when segments are removed, and a reader notices if the records at its offset were
// removed.
//
// Guarantees: a reader sees whole records only, in the order in which they were written. Lines longer than MaxLine, and
// lines whose end does not come in the time that the caller allows, are split into several records. A record that
// cannot be written to the disk is dropped and counted, and a remark with the count follows as soon as the disk accepts
// one: a full disk never blocks the task.
//
// Not guaranteed: durability against power loss (nothing is synced), and the exact order between stdout and stderr.
//
// The package is part of the shim, whose start delays every launch, so it imports little (see package shim).
package tasklog

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/archive/record"
)

// MaxLine is the longest text of one record, in bytes.
const MaxLine = 64 << 10

// Kind is the source of a record.
type Kind = record.Kind

// The kinds of records.
const (
	Stdout = record.Stdout
	Stderr = record.Stderr
	Remark = record.Remark
)

// Entry is one record.
type Entry = record.Entry

const (
	segmentDigits = 20
	segmentSuffix = ".log"
)

func segmentName(base uint64) string {
	digits := strconv.FormatUint(base, 10)
	return "00000000000000000000"[:segmentDigits-len(digits)] + digits + segmentSuffix
}

func parseSegmentName(name string) (uint64, bool) {
	if len(name) != segmentDigits+len(segmentSuffix) || name[segmentDigits:] != segmentSuffix {
		return 0, false
	}
	base, err := strconv.ParseUint(name[:segmentDigits], 10, 64)
	return base, err == nil
}

const (
	// maxNames limits how many names of the log's directory are read: the task may have made others.
	maxNames = 20_000
	// maxSegment limits how much of one segment is read. No writer makes longer ones.
	maxSegment = 64 << 20
)

// segments returns the offsets at which the segments in dir begin, in order. A directory that does not exist has none.
func segments(dir string) ([]uint64, error) {
	names, err := taskfile.Names(dir, maxNames)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var bases []uint64
	for _, name := range names {
		if base, ok := parseSegmentName(name); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// openSegment opens a segment for reading, and returns its length.
func openSegment(dir string, base uint64) (file *os.File, size int64, err error) {
	if file, err = taskfile.Open(dir, segmentName(base)); err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, min(info.Size(), maxSegment), nil
}
