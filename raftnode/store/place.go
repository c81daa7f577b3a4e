package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
)

// mark is the name of an empty bucket in the bucket of the votes. In raft.db it says that the log is in wal/, and in
// wal-meta.db that the votes are in raft.db. Versions of Mind that do not know these places refuse a file with such a
// bucket, and print its name.
const mark = "the log has moved: before you start an older version of mind here, start this version once with log_store: boltdb"

// The buckets of the votes and of the log.
const (
	boltVotes = "conf"
	boltLogs  = "logs"
	walVotes  = metadb.StableBucket
)

// Place describes where the log and the votes in a directory are.
type Place struct {
	// Log is WAL or Bolt; empty: there is no log yet.
	Log string
	// VotesInWAL says that the votes are in wal-meta.db, where earlier versions stored them.
	VotesInWAL bool

	walMarked bool
}

// lock returns the path of the file that a running replica has locked.
func (p Place) lock(dir string) string {
	if p.VotesInWAL {
		return filepath.Join(WALPath(dir), walMetaFile)
	}
	return BoltPath(dir)
}

// Find returns the place of the log in a directory. It changes nothing, and can be called while a replica runs and if
// the data is damaged. If earlier versions have left a log of each kind, it returns the place of kind want, or an error
// if want is empty.
func Find(dir, want string) (Place, error) {
	bolt, err := peek(BoltPath(dir), boltVotes)
	if err != nil {
		return Place{}, err
	}
	segments, err := peek(filepath.Join(WALPath(dir), walMetaFile), walVotes)
	if err != nil {
		return Place{}, err
	}
	inWAL := segments.there && !segments.marked && segments.votes > 0
	switch {
	case bolt.there && bolt.marked:
		return Place{Log: WAL, walMarked: segments.marked}, nil
	case bolt.there && inWAL && want == "":
		return Place{}, fmt.Errorf("%s holds a log of both kinds, %s and %s, each with votes of its own, and it cannot be told which one was "+
			"used last: move the other one away (raft.db is %s, wal/ is %s), or say which one to read", dir, Bolt, WAL, Bolt, WAL)
	case bolt.there && (!inWAL || want == Bolt):
		return Place{Log: Bolt}, nil
	case inWAL:
		return Place{Log: WAL, VotesInWAL: true}, nil
	case segments.there && segments.marked:
		return Place{}, damaged(BoltPath(dir), errors.New("the votes are gone: there is a log in wal/ and no raft.db"))
	case segments.there && segments.unreadable:
		return Place{Log: WAL, VotesInWAL: true}, nil
	}
	return Place{}, nil
}

// peeked has the facts about a BoltDB file that can be read without the library.
type peeked struct {
	there, marked, unreadable bool
	votes, entries            int
}

func peek(path, votes string) (peeked, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return peeked{}, nil // will be made
	}
	if err != nil {
		return peeked{}, err
	}
	walk, err := WalkBolt(path)
	if err != nil {
		return peeked{}, err
	}
	return peeked{there: true, marked: walk.marked, unreadable: walk.Unreadable, votes: walk.keysIn[votes], entries: len(walk.Indices())}, nil
}

// setMark adds the mark to a file, if it does not have it.
func setMark(path, votes string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTime, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("mark %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(votes))
		if err == nil {
			_, err = b.CreateBucketIfNotExists([]byte(mark))
		}
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("mark %s: %w", path, err)
	}
	return nil
}
