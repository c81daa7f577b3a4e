package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

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
