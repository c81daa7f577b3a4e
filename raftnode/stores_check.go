package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// lockPause is how long to wait before another try at a lock.
const lockPause = 50 * time.Millisecond

// checkBolt reads every page of a log that is there before anything else uses it. The library takes the process down when
// it meets a page that is not what it should be, or never comes back; and where the page that names the newest commit is
// damaged it goes on from the commit before. A replica that forgot what it has acknowledged would let the others lose it
// too. Here damage becomes an error that says what to do.
//
// It finds torn, foreign and missing pages. A changed bit within an entry is not found here: pages carry no checksums.
func checkBolt(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // it is yet to be made
	}
	if err != nil {
		return err
	}
	unlock, err := awaitLock(path, lockTime)
	if err != nil {
		return err
	}
	defer unlock()
	walk, err := walkBolt(path)
	if err != nil || len(walk.flaws) == 0 {
		return err
	}
	more := ""
	if n := len(walk.flaws) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more flaws", n)
	}
	return damaged(path, errors.New(walk.flaws[0].Problem+more))
}

// checkWAL holds the segments to their checksums. The library takes damage in the newest segment for a write that a crash
// cut short, and drops it with all that came after it.
func checkWAL(dir string, log *slog.Logger) error {
	if err := checkBolt(filepath.Join(dir, walMetaFile)); err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return fmt.Errorf("look for segments: %w", err)
	}
	for _, name := range segments {
		err := walkSegment(name, func(format string, args ...any) { log.Warn(fmt.Sprintf(format, args...)) })
		switch {
		case errors.Is(err, errNewest):
			log.Warn("the newest write to the log is not whole, and is dropped", "segment", name, "why", err)
		case err != nil:
			return damaged(name, err)
		}
	}
	return nil
}

// explainStart says what it means that raft cannot start from what is on disk: its snapshots are damaged, and the log does
// not reach back to one that is whole. (Both are not whole only together; raft itself tells neither.)
func (n *Node) explainStart(err error, snapshots raft.SnapshotStore) error {
	list, listErr := snapshots.List()
	if listErr != nil || len(list) == 0 {
		return err
	}
	how := ""
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		how = "its newest snapshot cannot be read, and entries between the one before and the beginning of the log are gone"
	case strings.Contains(err.Error(), "failed to load any existing snapshots"):
		how = "no snapshot can be read"
	default:
		return err
	}
	return fmt.Errorf("the snapshots in %s are damaged (%s: %w): take this coordinator out with `mind raft remove`, and start it with an "+
		"empty data directory and join_via (`mind raft verify` says more of what is wrong)", filepath.Join(n.cfg.Dir, "snapshots"), how, err)
}

func damaged(path string, how error) error {
	return fmt.Errorf("the log %s is damaged (%w): nothing on this disk can be trusted; take this coordinator out with "+
		"`mind raft remove`, and start it with an empty data_dir and join_via (`mind raft verify` says more of what is wrong)", path, how)
}

// awaitLock waits for another process that still has the log open.
func awaitLock(path string, within time.Duration) (unlock func(), err error) {
	for giveUp := time.Now().Add(within); ; time.Sleep(lockPause) {
		if unlock, err = lockStore(path); !errors.Is(err, ErrInUse) || time.Now().After(giveUp) {
			return unlock, err
		}
	}
}
