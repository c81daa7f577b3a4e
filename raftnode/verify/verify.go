// Package verify checks the data directory of a replica that does not run: it reads the log and the snapshots, replays
// the log, and reports flaws.
//
// Guarantees: it changes nothing, and refuses while a replica uses the data. It finds gaps, terms that decrease,
// entries that cannot be decoded, wrong checksums, and snapshots that do not belong to the log.
//
// Not guaranteed: that a change of bytes in BoltDB is found if the entry is still valid. BoltDB has no checksums of its
// pages. Such a change is found by comparing the hash with that of another replica.
package verify

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/machine"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// ErrInUse says that a replica still uses the data.
var ErrInUse = store.ErrInUse

// Replay is a state machine into which a log can be replayed.
type Replay interface {
	machine.StateMachine
	// Decode returns an error if an entry cannot be decoded. It changes nothing.
	Decode(entry []byte) error
	// Hash returns the hash of the state, which replicas compare.
	Hash() string
	// Check returns the invariants that the state breaks.
	Check() []string
}

// Config names the data to verify.
type Config struct {
	// Dir is the data directory of the replica.
	Dir string
	// LogStore is store.WAL or store.Bolt; empty: the kind that is there.
	LogStore string
	// New returns a state machine in its initial state.
	New func() Replay
	// At is an index whose hash is reported in addition to the hash at the end; 0: none.
	At uint64
}

// Flaw is a fault of the data, with its place.
type Flaw struct {
	// Where is "log", "log store", "state" or the id of a snapshot.
	Where   string `json:"where"`
	Index   uint64 `json:"index,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	Problem string `json:"problem"`
}

// Report has the results of a verification.
type Report struct {
	Dir       string           `json:"dir"`
	LogStore  string           `json:"log_store"`
	Log       LogReport        `json:"log"`
	Snapshots []SnapshotReport `json:"snapshots"`
	State     StateReport      `json:"state"`
	// Members lists the servers of the newest membership in the data, committed or not.
	Members []Member `json:"members"`
	Flaws   []Flaw   `json:"flaws"`
	// Notes lists observations that are not flaws.
	Notes []string `json:"notes"`
}

// Sound reports whether there are no flaws.
func (r *Report) Sound() bool { return len(r.Flaws) == 0 }

// Member is one server of a membership.
type Member struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft_addr"`
	Voter    bool   `json:"voter"`
}

// MembersOf lists the servers of a membership.
func MembersOf(c raft.Configuration) []Member {
	members := []Member{}
	for _, s := range c.Servers {
		members = append(members, Member{string(s.ID), string(s.Address), s.Suffrage == raft.Voter})
	}
	return members
}

// LogReport summarizes the log and the votes.
type LogReport struct {
	FirstIndex uint64 `json:"first_index"`
	FirstTerm  uint64 `json:"first_term"`
	LastIndex  uint64 `json:"last_index"`
	LastTerm   uint64 `json:"last_term"`
	Entries    int    `json:"entries"`
	// Commands counts the entries for the state machine, and Configurations the changes of membership.
	Commands       int    `json:"commands"`
	Configurations int    `json:"configurations"`
	CurrentTerm    uint64 `json:"current_term"`
	VotedTerm      uint64 `json:"voted_term"`
	VotedFor       string `json:"voted_for"`
}

// SnapshotReport describes one snapshot.
type SnapshotReport struct {
	ID      string   `json:"id"`
	Index   uint64   `json:"index"`
	Term    uint64   `json:"term"`
	Version int      `json:"version"`
	Bytes   int64    `json:"bytes"`
	Voters  []string `json:"voters"`
	// Hash is the hash of its state; empty if it could not be restored.
	Hash  string `json:"hash"`
	Sound bool   `json:"sound"`

	members []Member
}

// StateReport describes the state that a replica with this data would have at the end of its log. The last entries need
// not be committed, so compare two replicas at an index that both have and that is committed.
type StateReport struct {
	// From is the snapshot that the log was replayed onto; empty: it was replayed from its first entry.
	From     string `json:"from"`
	Index    uint64 `json:"index"`
	Term     uint64 `json:"term"`
	Hash     string `json:"hash"`
	Replayed int    `json:"replayed"`
	// AtIndex is Config.At, and AtHash the hash there.
	AtIndex uint64 `json:"at_index,omitempty"`
	AtHash  string `json:"at_hash,omitempty"`
}

// maxFlaws limits a report, because data with many flaws need not be described entry by entry.
const maxFlaws = 100

func (r *Report) flaw(where string, index, term uint64, format string, args ...any) {
	if len(r.Flaws) < maxFlaws {
		r.Flaws = append(r.Flaws, Flaw{where, index, term, fmt.Sprintf(format, args...)})
	}
}

func (r *Report) note(format string, args ...any) {
	if len(r.Notes) < maxFlaws {
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	}
}

// Places of flaws.
const (
	inLog   = "log"
	inStore = "log store"
	inState = "state"
)

// Data verifies the data of a replica. It reads every entry and every snapshot, replays the log onto the oldest
// snapshot that it continues, compares the states with newer snapshots, and checks the invariants of the last state. It
// returns an error if it could not read the data; flaws are in the report.
func Data(ctx context.Context, cfg Config) (*Report, error) {
	h, err := Hold(ctx, cfg, 0)
	if err != nil {
		return nil, err
	}
	h.Unlock()
	return h.Report, nil
}

// Held is data that was verified and is locked until Unlock is called.
type Held struct {
	Report *Report
	// Machine has the state at the end of the log; nil: there is none, or a snapshot is newer.
	Machine *machine.Machine
	Unlock  func()
}

// Hold verifies data as Data does, and keeps it locked. If a replica uses the data, Hold waits up to within for its
// end.
func Hold(ctx context.Context, cfg Config, within time.Duration) (held *Held, err error) {
	place, err := findStore(cfg)
	if err != nil {
		return nil, err
	}
	unlock, err := store.Lock(cfg.Dir, place, within)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	r := &Report{Dir: cfg.Dir, LogStore: place.Log, Snapshots: []SnapshotReport{}, Members: []Member{}, Flaws: []Flaw{}, Notes: []string{}}
	source, err := openSource(r, place, cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer source.close()
	verifySnapshots(ctx, r, cfg)
	if source.votes != nil {
		verifyVotes(r, source.votes)
	}
	var m *machine.Machine
	if source.log != nil {
		err := Guarded(func() (err error) {
			m, err = verifyLog(ctx, r, cfg, source)
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.flaw(inLog, 0, 0, "the log cannot be read: %v", err)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.SortStableFunc(r.Flaws, func(a, b Flaw) int { return cmp.Compare(a.Index, b.Index) })
	return &Held{Report: r, Machine: m, Unlock: unlock}, nil
}

// findStore returns the place of the log.
func findStore(cfg Config) (store.Place, error) {
	switch cfg.LogStore {
	case "", store.Bolt, store.WAL:
	default:
		return store.Place{}, fmt.Errorf("log store %q: it must be %s or %s", cfg.LogStore, store.Bolt, store.WAL)
	}
	place, err := store.Find(cfg.Dir, cfg.LogStore)
	if _, statErr := os.Stat(store.BoltPath(cfg.Dir)); err == nil && place.Log == "" && statErr == nil {
		place.Log = store.Bolt // an empty file, which was just made or was cut off
	}
	switch {
	case err != nil:
		return place, err
	case place.Log == "":
		return place, fmt.Errorf("there is no log of a coordinator in %s", cfg.Dir)
	case cfg.LogStore != "" && cfg.LogStore != place.Log:
		return place, fmt.Errorf("there is no log of the kind %s in %s, but one of the kind %s", cfg.LogStore, cfg.Dir, place.Log)
	}
	return place, nil
}

// verifyVotes checks the term and the votes of the replica.
func verifyVotes(r *Report, s raft.StableStore) {
	number := func(key string) uint64 {
		var v uint64
		err := Guarded(func() (err error) {
			v, err = s.GetUint64([]byte(key))
			return err
		})
		// For a key that was never set the stores return an error with this text.
		if err != nil && err.Error() != "not found" {
			r.flaw(inStore, 0, 0, "%s cannot be read: %v", key, err)
		}
		return v
	}
	r.Log.CurrentTerm, r.Log.VotedTerm = number("CurrentTerm"), number("LastVoteTerm")
	_ = Guarded(func() error {
		v, err := s.Get([]byte("LastVoteCand"))
		r.Log.VotedFor = string(v)
		return err
	})
	if r.Log.VotedTerm > r.Log.CurrentTerm {
		r.flaw(inStore, 0, r.Log.VotedTerm, "it voted in term %d, and has come to term %d only", r.Log.VotedTerm, r.Log.CurrentTerm)
	}
}
