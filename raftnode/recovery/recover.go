// Package recovery begins a new life of a cluster when a majority of its voters is lost for good: from the data of one
// replica, or from a saved state. It also writes saved states.
//
// Guarantees: the old data is kept beside the new data. The two are swapped in one step, so a crash at any moment
// leaves the old data or the new, complete. Terms and indices of a new life are higher than those of all lives before.
// A saved state that is damaged or cut off is refused.
//
// Not guaranteed: that voters of the old life never run again with their data. The caller must ensure that.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// Config describes the new life of a cluster, and the data that it begins from.
type Config struct {
	// Dir, LogStore and New are those of verify.Config.
	Dir      string
	LogStore string
	New      func() verify.Replay
	// Voters lists the voters of the new life. Each of them must have no data, or an older part of the same log.
	Voters []Server
	// Begin returns the first entry of the new life.
	Begin func() []byte
	// Now returns the current time; nil: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	if len(c.Voters) == 0 {
		return errors.New("no voter is named")
	}
	seen := map[string]bool{}
	for _, v := range c.Voters {
		if v.ID == "" || v.Addr == "" {
			return fmt.Errorf("a voter needs an id and a raft address: %+v", v)
		}
		if seen[v.ID] || seen[v.Addr] {
			return fmt.Errorf("the voters name %s at %s twice", v.ID, v.Addr)
		}
		seen[v.ID], seen[v.Addr] = true, true
	}
	return nil
}

// Server is a voter: its id and the address that its raft listener advertises.
type Server struct {
	ID   string
	Addr string
}

// Life describes the beginning of a new life.
type Life struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Hash  string `json:"hash"`
	// Result is the result of the first command from the state machine.
	Result any `json:"-"`
}

// Recovery is the result of Recover.
type Recovery struct {
	Life
	// Before is the report about the data that it began from.
	Before *verify.Report `json:"before"`
	// Kept is the directory with the old data.
	Kept string `json:"kept"`
}

// ErrDamaged says that data cannot be used for a recovery, because package verify found a flaw in it.
var ErrDamaged = errors.New("the data is damaged")

// exitTime is how long a process that was just killed may take to exit.
const exitTime = 2 * time.Second

// Recover begins a new life of a cluster from the data of one replica that does not run, when a majority of the voters
// is lost for good. All entries in the log of this replica count as committed. The replica's data is swapped with the
// data of the new life in one step, and kept beside it.
//
// The caller must ensure that voters of the old life that are not voters of the new one never run again with their
// data.
func Recover(ctx context.Context, cfg Config) (*Recovery, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	held, err := verify.Hold(ctx, verify.Config{Dir: cfg.Dir, LogStore: cfg.LogStore, New: cfg.New}, exitTime)
	if err != nil {
		return nil, err
	}
	defer held.Unlock()
	before, m := held.Report, held.Machine
	if !before.Sound() {
		f := before.Flaws[0]
		return nil, fmt.Errorf("%w (%s: %s): recover from another coordinator's disk, or restore a snapshot", ErrDamaged, f.Where, f.Problem)
	}
	if m == nil {
		if before.State.From == "" {
			return nil, fmt.Errorf("there is no state in %s: this coordinator never took part in a cluster", cfg.Dir)
		}
		if m, _, err = verify.RestoreSnapshot(verify.Config{Dir: cfg.Dir, New: cfg.New}, before.State.From); err != nil {
			return nil, fmt.Errorf("restore snapshot %s: %w", before.State.From, err)
		}
	}
	s := &seed{logStore: before.LogStore, voters: cfg.Voters, machine: m}
	r := &Recovery{Before: before}
	if r.Life, err = s.begin(cfg, before.State.Index, max(before.State.Term, before.Log.CurrentTerm, before.Log.VotedTerm)); err != nil {
		return nil, err
	}
	r.Kept = fmt.Sprintf("%s.before-%s", cfg.Dir, cfg.Now().UTC().Format("20060102T150405Z"))
	aside := cfg.Dir + ".new"
	if err := os.RemoveAll(aside); err != nil {
		return nil, err
	}
	if err := s.write(aside); err != nil {
		return nil, fmt.Errorf("write the new life: %w", err)
	}
	// After this swap the new life is in place. Only the old data must still get its name.
	if err := durable.SwapNames(aside, cfg.Dir); err != nil {
		return nil, fmt.Errorf("put the new life in the place of the old: %w", err)
	}
	if err := durable.Rename(aside, r.Kept); err != nil {
		return nil, fmt.Errorf("the new life is in place; what was before lies in %s: %w", aside, err)
	}
	return r, nil
}

// begin applies the first entry of the new life to the state.
func (s *seed) begin(cfg Config, index, term uint64) (Life, error) {
	s.index, s.term = nextLife(index, term, cfg.Now())
	var answers []any
	err := verify.Guarded(func() error {
		results := s.machine.ApplyBatch([]*raft.Log{{Index: s.index, Term: s.term, Type: raft.LogCommand, Data: cfg.Begin()}})
		answers, _ = results[0].([]any)
		return nil
	})
	if err != nil {
		return Life{}, fmt.Errorf("begin a new life: %w", err)
	}
	sm := s.machine.State().(verify.Replay)
	if broken := sm.Check(); len(broken) > 0 {
		return Life{}, fmt.Errorf("begin a new life: an invariant would be broken: %s", broken[0])
	}
	life := Life{Index: s.index, Term: s.term, Hash: sm.Hash()}
	if len(answers) > 0 {
		life.Result = answers[0]
	}
	return life, nil
}
