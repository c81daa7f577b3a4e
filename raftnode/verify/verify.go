// Package verify reads the data directory of a replica that does not run: it walks the log and the snapshots, replays them, and
// says what is wrong.
//
// Guarantees: it changes nothing, and refuses while a replica uses the data. It finds gaps, terms that go back, what cannot be
// decoded, wrong checksums, and snapshots that do not belong to the log.
//
// Not guaranteed: that a change of bytes in BoltDB is found that still makes a valid entry. BoltDB has no checksums of its
// pages; such a change shows in the hash, when that is compared with another replica's.
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

// ErrInUse says that a replica still runs on the data that was to be verified.
var ErrInUse = store.ErrInUse

// Replay is a state machine that a log is replayed into.
type Replay interface {
	machine.StateMachine
	// Decode says whether an entry can be understood, and changes nothing.
	Decode(entry []byte) error
	// Hash is the hash of the state, as replicas compare it.
	Hash() string
	// Check lists what does not hold of the state.
	Check() []string
}

// Config says what to verify.
type Config struct {
	// Dir is that of the replica.
	Dir string
	// LogStore is store.WAL or store.Bolt; empty: whichever is there.
	LogStore string
	// New makes a state machine in its first state.
	New func() Replay
	// At is an index at which the hash is wanted besides that at the end; 0: none.
	At uint64
}

// Flaw is something that is wrong, and its place.
type Flaw struct {
	// Where is "log", "log store", "state" or the id of a snapshot.
	Where   string `json:"where"`
	Index   uint64 `json:"index,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	Problem string `json:"problem"`
}

// Report is what was found.
type Report struct {
	Dir       string           `json:"dir"`
	LogStore  string           `json:"log_store"`
	Log       LogReport        `json:"log"`
	Snapshots []SnapshotReport `json:"snapshots"`
	State     StateReport      `json:"state"`
	// Members are those of the newest membership on this disk, committed or not.
	Members []Member `json:"members"`
	Flaws   []Flaw   `json:"flaws"`
	// Notes are worth knowing, and not wrong.
	Notes []string `json:"notes"`
}

// Sound says whether nothing is wrong.
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

// LogReport sums up the log and the votes.
type LogReport struct {
	FirstIndex uint64 `json:"first_index"`
	FirstTerm  uint64 `json:"first_term"`
	LastIndex  uint64 `json:"last_index"`
	LastTerm   uint64 `json:"last_term"`
	Entries    int    `json:"entries"`
	// Commands are the entries for the state machine, Configurations the changes of membership.
	Commands       int    `json:"commands"`
	Configurations int    `json:"configurations"`
	CurrentTerm    uint64 `json:"current_term"`
	VotedTerm      uint64 `json:"voted_term"`
	VotedFor       string `json:"voted_for"`
}

// SnapshotReport is one snapshot.
type SnapshotReport struct {
	ID      string   `json:"id"`
	Index   uint64   `json:"index"`
	Term    uint64   `json:"term"`
	Version int      `json:"version"`
	Bytes   int64    `json:"bytes"`
	Voters  []string `json:"voters"`
	// Hash is that of the state in it; empty when it could not be restored.
	Hash  string `json:"hash"`
	Sound bool   `json:"sound"`

	members []Member
}

// StateReport is the state that a replica would come to. The end of a log need not be committed yet: two replicas are to
// be compared at an index that both have, and that is committed.
type StateReport struct {
	// From is the snapshot that the log was replayed onto; empty: it was replayed from its first entry.
	From     string `json:"from"`
	Index    uint64 `json:"index"`
	Term     uint64 `json:"term"`
	Hash     string `json:"hash"`
	Replayed int    `json:"replayed"`
	// AtIndex and AtHash are what Config.At asked for.
	AtIndex uint64 `json:"at_index,omitempty"`
	AtHash  string `json:"at_hash,omitempty"`
}

// maxFlaws bounds a report: what is broken all through need not be told entry by entry.
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

// Data walks the log and the snapshots of a replica. It reads every entry and every snapshot, replays the log onto the oldest
// snapshot that it continues, compares what comes of it with the newer snapshots, and checks the invariants of the state. An
// error means that it could not look; what it found wrong is in the report.
func Data(ctx context.Context, cfg Config) (*Report, error) {
	h, err := Hold(ctx, cfg, 0)
	if err != nil {
		return nil, err
	}
	h.Unlock()
	return h.Report, nil
}

// Held is data that was verified, and that nobody else can use before Unlock is called.
type Held struct {
	Report *Report
	// Machine is the state that the log comes to; nil: it comes to none, or a snapshot is newer.
	Machine *machine.Machine
	Unlock  func()
}

// Hold verifies data as Data does. A replica that uses it has so much time to end.
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

// findStore says where the log lies.
func findStore(cfg Config) (store.Place, error) {
	switch cfg.LogStore {
	case "", store.Bolt, store.WAL:
	default:
		return store.Place{}, fmt.Errorf("log store %q: it must be %s or %s", cfg.LogStore, store.Bolt, store.WAL)
	}
	place, err := store.Find(cfg.Dir, cfg.LogStore)
	if _, statErr := os.Stat(store.BoltPath(cfg.Dir)); err == nil && place.Log == "" && statErr == nil {
		place.Log = store.Bolt // an empty file, as of one that was only just made, or was cut to nothing
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

// verifyVotes looks at what the replica has promised to others.
func verifyVotes(r *Report, s raft.StableStore) {
	number := func(key string) uint64 {
		var v uint64
		err := Guarded(func() (err error) {
			v, err = s.GetUint64([]byte(key))
			return err
		})
		// The stores tell "never set" by an error that says so, and nothing else.
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
