package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// checkWAL holds the segments to their checksums, and mends what a crash may have left of the newest one. The library takes
// damage in the newest segment for a write that a crash cut short, and drops it with all that came after it.
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

// Segment is what was found of one segment.
type Segment struct {
	Name string
	// Err is what is wrong with it.
	Err error
	// Torn: what follows its first End bytes is a write that was not finished, and that the next start drops.
	Torn bool
	End  int

	walk segmentWalk
	tail bool
}

// Newest says whether a crash may have done what Err says: then nobody was told yet that this write is on the disk.
func (s Segment) newest() bool { return s.tail && errors.Is(s.Err, errNewest) }

// CheckSegments reads the segments of a log, in the folder of a log that nobody uses. The list of them must be sound.
func CheckSegments(dir string) ([]Segment, error) {
	meta := &metadb.BoltMetaDB{}
	state, err := meta.Load(dir)
	if err = errors.Join(err, meta.Close()); err != nil {
		return nil, fmt.Errorf("read the list of segments: %w", err)
	}
	return checkSegments(dir, state), nil
}

func checkSegments(dir string, state types.PersistentState) (found []Segment) {
	for i, info := range state.Segments {
		s := Segment{Name: filepath.Join(dir, segment.FileName(info)), tail: info.SealTime.IsZero()}
		s.walk, s.Err = walkSegment(s.Name)
		s.Torn, s.End = s.walk.torn, s.walk.end
		switch {
		case errors.Is(s.Err, os.ErrNotExist) && s.tail:
			continue // it is named first and made later
		case s.Err != nil:
		// Its size was allocated before the first write to it was acknowledged.
		case s.walk.end > 0 && s.walk.size < int(info.SizeLimit):
			s.Err = fmt.Errorf("it has %d bytes and should have %d: it was cut off", s.walk.size, info.SizeLimit)
		case s.tail && i != len(state.Segments)-1:
			s.Err = errors.New("it is not sealed, and not the newest")
		}
		found = append(found, s)
	}
	return found
}

// mendSegments refuses damaged segments, and mends the newest one.
func (c Config) mendSegments(meta *metadb.BoltMetaDB, state types.PersistentState) error {
	for _, s := range checkSegments(WALPath(c.Dir), state) {
		switch {
		case s.newest():
			c.Logger.Warn("the newest write to the log is not whole, and is dropped", "segment", s.Name, "why", s.Err)
		case s.Err != nil:
			return damaged(s.Name, s.Err)
		}
		if s.tail {
			return c.mendTail(meta, state, s.Name, s.walk)
		}
	}
	return nil
}

// mendTail makes a newest segment that a crash has left in the middle of something usable. Both faults are the library's: it
// takes a segment with an index for sealed, also when the write that sealed it was cut short; and it does not go on with a
// sealed segment that is not yet known as sealed. In either case it would refuse every write.
func (c Config) mendTail(meta *metadb.BoltMetaDB, state types.PersistentState, name string, walk segmentWalk) error {
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

// clearFrom replaces what follows in a file by zeros.
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
