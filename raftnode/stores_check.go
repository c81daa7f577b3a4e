package raftnode

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// checkBolt reads every page of a log that is there before anything else uses
// it. The library takes the process down when it meets a page that is not what
// it should be, in a goroutine of its own; here damage becomes an error that
// says what to do.
//
// It finds torn, foreign and missing pages. A changed bit within an entry is
// not found here: pages carry no checksums.
func checkBolt(path string) (err error) {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && fi.Size() == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = errors.New("a part of the file is not there")
		default:
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			err = fmt.Errorf("the log %s is damaged (%w): nothing on this disk can be trusted; take this coordinator out with "+
				"`mind raft remove`, and start it with an empty data_dir and join_via", path, err)
		}
	}()
	// The file is mapped: a part of it that is not there faults.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTime})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil // who holds it is told by the opening that follows
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	sum := crc32.NewIEEE()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, v []byte) error {
				_, err := sum.Write(v)
				return err
			})
		})
	})
}
