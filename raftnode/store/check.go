package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// checkBolt checks every page of an existing BoltDB file before the library opens it. On a damaged page the library
// ends the process or never returns, and if the page with the newest commit is damaged, it uses the commit before. A
// replica that forgets entries that it has acknowledged may cause the others to lose them, too. So checkBolt returns an
// error that says what to do.
//
// It finds torn, foreign and missing pages. It does not find a changed bit within an entry, because pages have no
// checksums.
func checkBolt(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // will be made
	}
	if err != nil {
		return err
	}
	unlock, err := lockShared(path, lockTime)
	if err != nil {
		return err
	}
	defer unlock()
	walk, err := WalkBolt(path)
	if err != nil || len(walk.Flaws) == 0 {
		return err
	}
	more := ""
	if n := len(walk.Flaws) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more flaws", n)
	}
	return damaged(path, errors.New(walk.Flaws[0].Problem+more))
}

func damaged(path string, how error) error {
	return fmt.Errorf("the log %s is damaged (%w): nothing on this disk can be trusted; take this coordinator out with "+
		"`mind raft remove`, and start it with an empty data_dir and join_via (`mind raft verify` says more of what is wrong)", path, how)
}
