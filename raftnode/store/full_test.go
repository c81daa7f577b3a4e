package store

import (
	"os"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSegmentSize(t *testing.T) {
	require.Equal(t, maxSegment, segmentSize(1<<40))
	require.Equal(t, maxSegment, segmentSize(64*maxSegment))
	require.Equal(t, 1<<20, segmentSize(64<<20))
	require.Equal(t, minSegment, segmentSize(1<<20))
}

// On a full disk a log accepts writes until its segment is full. Then a write must fail with the reason, and all
// accepted entries must be kept.
func TestStore_onAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a disk that can be filled is a small tmpfs, which only root can mount")
	}
	dir := t.TempDir()
	mount := func(options string, flags uintptr) error { return unix.Mount("tmpfs", dir, "tmpfs", flags, options) }
	if err := mount("size=2m", 0); err != nil {
		t.Skip("no tmpfs can be mounted: ", err)
	}
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	whole := func(c *Config) { c.segmentBytes = 0 }
	s := open(t, dir, "", whole)
	require.NoError(t, someVotes.write(s))
	var stored []*raft.Log
	var err error
	for err == nil && len(stored) < 5000 {
		next := entriesFrom(lastOf(stored)+1, 1)
		if err = s.StoreLogs(next); err == nil {
			stored = append(stored, next...)
		}
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, s.Close())
	require.NoError(t, mount("size=8m", unix.MS_REMOUNT))
	requireWorks(t, dir, WAL, stored)
}
