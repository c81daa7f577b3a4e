// Package tasklog keeps what one task printed.
//
// Contract: one Writer (in the task's shim) appends lines to segment files in
// one directory; any number of Readers, in other processes, read them while
// they grow. A record is one line of text (package record), from stdout, from
// stderr, or a remark of Mind's own. A segment is
// named after the offset of its first byte in the log as it would be
// unrotated, so an offset stays good across rotation, and one that has been
// removed by the retention bound is noticed, not silently skipped.
//
// Guarantees: a reader sees whole records only, in the order in which they
// were written. Lines longer than MaxLine and pieces that wait for their end
// longer than the caller allows are split into several records. When the disk
// refuses a record, it is dropped and counted, and a remark with the count
// follows as soon as the disk takes one: the task is never blocked by it.
//
// Not guaranteed: durability against power loss (nothing is synced), and order
// between stdout and stderr closer than the shim read them.
//
// The package is part of the shim, whose start is on the path of every launch:
// it imports little (see package shim).
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

// Kind says where a record comes from.
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
	// maxNames bounds the directory that a log is in, of which the task may have made something else.
	maxNames = 20_000
	// maxSegment bounds what is read of one segment. No writer makes them as long.
	maxSegment = 64 << 20
)

// segments returns the offsets at which the segments in dir begin, in order.
// A directory that is not there has none.
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

// openSegment opens a segment to read it, and says how long it is.
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
