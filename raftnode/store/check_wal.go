package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/mindcoordinator/mind/durable"
)

// checkWAL checks the list of segments and the checksums of all segments, and repairs the newest segment after a crash.
// The library takes damage in the newest segment for a write that a crash cut short, and drops it and all writes after
// it.
func (c Config) checkWAL() error {
	dir := WALPath(c.Dir)
	path := filepath.Join(dir, walMetaFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return damaged(path, errors.New("it is gone"))
	}
	if err := checkBolt(path); err != nil {
		return err
	}
	meta := &metadb.BoltMetaDB{}
	state, err := meta.Load(dir)
	if err == nil {
		err = c.mendSegments(meta, state)
	}
	return errors.Join(err, meta.Close())
}

// Segment is the result of checking one segment.
type Segment struct {
	Name string
	// Err is a fault of the segment; nil: there is none.
	Err error
	// Torn says that after the first End bytes there is an unfinished write, which the next start drops.
	Torn bool
	End  int

	walk segmentWalk
	tail bool
}

// CheckSegments checks the segments of a log, in a folder that no process uses. If the list of segments has a fault, it
// returns an error.
func CheckSegments(dir string) ([]Segment, error) {
	meta := &metadb.BoltMetaDB{}
	state, err := meta.Load(dir)
	if err = errors.Join(err, meta.Close()); err != nil {
		return nil, fmt.Errorf("read the list of segments: %w", err)
	}
	if err := checkList(dir, state); err != nil {
		return nil, fmt.Errorf("the list of segments: %w", err)
	}
	return checkSegments(dir, state), nil
}

// checkList returns an error if the list of segments is not possible. The library removes segments that are not listed,
// and makes listed ones that are missing, so after a change of a number in the list the entries of a segment would be
// lost.
func checkList(dir string, state types.PersistentState) error {
	listed, last := map[uint64]string{}, len(state.Segments)-1
	for i, s := range state.Segments {
		listed[s.ID] = segment.FileName(s)
		sealed := !s.SealTime.IsZero()
		switch {
		case s.BaseIndex == 0 || s.Codec != wal.CodecBinaryV1 || s.SizeLimit == 0:
			return fmt.Errorf("segment %d is of no known kind", s.ID)
		case i == last && sealed:
			return fmt.Errorf("segment %d, the newest, is sealed", s.ID)
		case i < last && !sealed:
			return fmt.Errorf("segment %d is not sealed, and not the newest", s.ID)
		case sealed && (s.MaxIndex < s.MinIndex || s.IndexStart < segmentHeader) || !sealed && s.MaxIndex+s.IndexStart > 0:
			return fmt.Errorf("segment %d is said to end at entry %d", s.ID, s.MaxIndex)
		case s.MinIndex < s.BaseIndex || i > 0 && s.MinIndex != s.BaseIndex:
			return fmt.Errorf("segment %d is said to hold entries from %d on, and begins with %d", s.ID, s.MinIndex, s.BaseIndex)
		case i > 0 && s.BaseIndex != state.Segments[i-1].MaxIndex+1:
			return fmt.Errorf("segment %d begins with entry %d, and the one before ends with %d", s.ID, s.BaseIndex, state.Segments[i-1].MaxIndex)
		case i > 0 && s.ID <= state.Segments[i-1].ID:
			return fmt.Errorf("segment %d follows segment %d", s.ID, state.Segments[i-1].ID)
		case i == last && s.ID+1 != state.NextSegmentID:
			return fmt.Errorf("segment %d is the newest, and the next one is to be %d", s.ID, state.NextSegmentID)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return err
	}
	for _, path := range names {
		var base, id uint64
		name := filepath.Base(path)
		if _, err := fmt.Sscanf(name, "%020d-%016x.wal", &base, &id); err != nil {
			return fmt.Errorf("file %s: its name is not that of a segment", name)
		}
		if want := listed[id]; want != "" && want != name || id >= state.NextSegmentID {
			return fmt.Errorf("file %s is not listed, and is no older segment that was removed", name)
		}
	}
	return nil
}

func checkSegments(dir string, state types.PersistentState) (found []Segment) {
	for _, info := range state.Segments {
		s := Segment{Name: filepath.Join(dir, segment.FileName(info)), tail: info.SealTime.IsZero()}
		s.walk, s.Err = walkSegment(s.Name)
		s.Torn, s.End = s.walk.torn, s.walk.end
		if errors.Is(s.Err, os.ErrNotExist) && s.tail {
			continue // the list names a segment before it is made
		}
		if s.Err == nil {
			s.Err = s.fits(info)
		}
		found = append(found, s)
	}
	return found
}

// fits compares a segment with its description in the list.
func (s Segment) fits(info types.SegmentInfo) error {
	w, header := s.walk, s.walk.header
	switch {
	// All of its size was allocated before the first write to it was acknowledged.
	case w.end > 0 && w.size < int(info.SizeLimit):
		return fmt.Errorf("it has %d bytes and should have %d: it was cut off", w.size, info.SizeLimit)
	case w.end > 0 && (header.BaseIndex != info.BaseIndex || header.ID != info.ID || header.Codec != info.Codec):
		return fmt.Errorf("it says that it is segment %d from entry %d on", header.ID, header.BaseIndex)
	case s.tail && info.MinIndex > info.BaseIndex && info.MinIndex >= info.BaseIndex+uint64(w.entries):
		return fmt.Errorf("entry %d and those after it are gone", info.MinIndex)
	case s.tail:
		return nil
	case w.torn || w.end == 0 || uint64(w.index) != info.IndexStart:
		return errors.New("it is sealed, and its end is damaged")
	case uint64(w.entries) < info.MaxIndex-info.BaseIndex+1:
		return fmt.Errorf("it has %d entries and should have %d", w.entries, info.MaxIndex-info.BaseIndex+1)
	}
	return nil
}

// mendSegments returns an error if a segment is damaged, and repairs the newest segment.
func (c Config) mendSegments(meta *metadb.BoltMetaDB, state types.PersistentState) error {
	dir := WALPath(c.Dir)
	if err := checkList(dir, state); err != nil {
		return damaged(filepath.Join(dir, walMetaFile), err)
	}
	for _, s := range checkSegments(dir, state) {
		if s.Err != nil {
			return damaged(s.Name, s.Err)
		}
		if s.tail {
			return c.mendTail(meta, state, s.Name, s.walk)
		}
	}
	return nil
}

// mendTail repairs the newest segment after a crash, because of two faults of the library. The library takes a segment
// with an index for sealed, even if the write that sealed it was cut short. And it does not continue after a sealed
// segment that is not listed as sealed. In both cases it would refuse all writes.
func (c Config) mendTail(meta *metadb.BoltMetaDB, state types.PersistentState, name string, walk segmentWalk) error {
	if walk.end == 0 && walk.size < int(state.Segments[len(state.Segments)-1].SizeLimit) {
		// On a full disk the segment was made but not allocated. The library would use it.
		c.Logger.Info("the newest segment of the log was not made to its end: it is begun again", "segment", name)
		return c.do("remove an unfinished segment", func() error {
			return errors.Join(os.Remove(name), durable.SyncDir(filepath.Dir(name)))
		})
	}
	if walk.torn {
		c.Logger.Warn("a write to the log that was not finished is dropped", "segment", name, "after_byte", walk.end)
		if err := c.do("clear the torn write", func() error { return clearFrom(name, walk.end, walk.size) }); err != nil {
			return err
		}
	}
	if walk.index == 0 {
		return nil
	}
	if walk.entries == 0 {
		return damaged(name, errors.New("it is sealed, and empty"))
	}
	now := time.Now()
	tail := &state.Segments[len(state.Segments)-1]
	tail.SealTime, tail.IndexStart, tail.MaxIndex = now, uint64(walk.index), tail.BaseIndex+uint64(walk.entries)-1
	next := types.SegmentInfo{
		ID: state.NextSegmentID, BaseIndex: tail.MaxIndex + 1, MinIndex: tail.MaxIndex + 1,
		SizeLimit: tail.SizeLimit, Codec: tail.Codec, CreateTime: now,
	}
	state.NextSegmentID++
	state.Segments = append(state.Segments, next)
	c.Logger.Info("the newest segment of the log was full: another is begun", "segment", name, "begins", next.BaseIndex)
	return c.do("finish the rotation", func() error { return meta.CommitState(state) })
}

// clearFrom replaces the bytes of a file from end on by zeros.
func clearFrom(name string, end, size int) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("clear a torn write: %w", err)
	}
	err = f.Truncate(int64(end))
	if err == nil {
		err = f.Truncate(int64(size))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("clear a torn write: %w", err)
	}
	return nil
}
