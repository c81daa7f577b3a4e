package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/machine"
)

// replayer reads a log once, entry by entry.
type replayer struct {
	r   *Report
	cfg Config
	// m has the state after all entries up to at. It is nil if the log is not replayed, or not any further.
	m  *machine.Machine
	at uint64
	// decoder is a state machine that only decodes entries.
	decoder Replay
	// ahead lists the sound snapshots after at.
	ahead []SnapshotReport
}

// verifyLog reads every entry, and replays the log as far as possible. It returns the state at the end of the log, or
// nil if there is none or a snapshot is newer.
func verifyLog(ctx context.Context, r *Report, cfg Config, s *source) (*machine.Machine, error) {
	var sound []SnapshotReport
	for _, snap := range r.Snapshots {
		if snap.Sound {
			sound = append(sound, snap)
		}
	}
	p := &replayer{r: r, cfg: cfg, decoder: cfg.New()}
	if err := p.begin(s.indices, sound); err != nil {
		return nil, err
	}
	var lastIndex, lastTerm uint64
	terms := map[uint64]uint64{} // of the last entries of snapshots
	for _, snap := range r.Snapshots {
		terms[snap.Index] = 0
	}
	for _, index := range s.indices {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if lastIndex != 0 && index != lastIndex+1 {
			r.flaw(inLog, lastIndex+1, 0, "entries %d to %d are missing", lastIndex+1, index-1)
			p.stop()
		}
		lastIndex = index
		r.Log.Entries++
		entry, err := readEntry(s.log, index)
		if err != nil {
			r.flaw(inLog, index, 0, "%v", err)
			p.stop()
			continue
		}
		if r.Log.FirstIndex == 0 {
			r.Log.FirstIndex, r.Log.FirstTerm = index, entry.Term
		}
		if entry.Term < lastTerm {
			r.flaw(inLog, index, entry.Term, "the term goes back, from %d to %d", lastTerm, entry.Term)
		}
		if entry.Term > r.Log.CurrentTerm {
			r.flaw(inLog, index, entry.Term, "the entry is of term %d, and the replica has come to term %d only", entry.Term, r.Log.CurrentTerm)
		}
		lastTerm = max(lastTerm, entry.Term)
		r.Log.LastIndex, r.Log.LastTerm = index, entry.Term
		if _, ok := terms[index]; ok {
			terms[index] = entry.Term
		}
		p.entry(entry)
	}
	for _, snap := range r.Snapshots {
		if term := terms[snap.Index]; term != 0 && snap.Term != 0 && term != snap.Term {
			r.flaw(snap.ID, snap.Index, snap.Term, "it ends in term %d, and the log's entry there is of term %d", snap.Term, term)
		}
	}
	p.end(sound)
	return p.m, nil
}

// begin chooses the state onto which the log is replayed: the oldest one that it continues.
func (p *replayer) begin(indices []uint64, sound []SnapshotReport) error {
	if len(indices) == 0 {
		return nil
	}
	first, last := indices[0], indices[len(indices)-1]
	if first == 1 {
		p.m, p.ahead = machine.New(p.cfg.New()), sound
		return nil
	}
	for i, s := range sound {
		if first > s.Index+1 || s.Index > last {
			continue
		}
		m, _, err := RestoreSnapshot(p.cfg, s.ID)
		if err != nil {
			return fmt.Errorf("restore snapshot %s: %w", s.ID, err)
		}
		p.m, p.at, p.ahead = m, s.Index, sound[i+1:]
		p.r.State.From = s.ID
		return nil
	}
	if len(sound) == 0 || sound[len(sound)-1].Index < last {
		p.r.flaw(inLog, first, 0, "the log begins at %d, and there is no sound snapshot that it continues", first)
	}
	return nil
}

// stop ends the replay, because the following entries cannot be applied to the state.
func (p *replayer) stop() { p.m = nil }

func readEntry(log raft.LogStore, index uint64) (*raft.Log, error) {
	entry := &raft.Log{}
	err := Guarded(func() error { return log.GetLog(index, entry) })
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		return nil, errors.New("the entry is missing")
	case err != nil:
		return nil, fmt.Errorf("the entry cannot be read: %w", err)
	case entry.Index != index:
		return nil, fmt.Errorf("the entry says that it is entry %d", entry.Index)
	}
	return entry, nil
}

// entry checks one entry, and applies it if the state does not have it yet.
func (p *replayer) entry(entry *raft.Log) {
	r := p.r
	err := Guarded(func() error {
		switch entry.Type {
		case raft.LogCommand:
			if len(entry.Data) == 0 {
				return nil // a barrier
			}
			r.Log.Commands++
			return p.decoder.Decode(entry.Data)
		case raft.LogConfiguration:
			r.Log.Configurations++
			r.Members = MembersOf(raft.DecodeConfiguration(entry.Data))
		case raft.LogNoop, raft.LogBarrier:
		default:
			return fmt.Errorf("it is of a kind that is not known (%d)", entry.Type)
		}
		return nil
	})
	if err != nil {
		r.flaw(inLog, entry.Index, entry.Term, "the entry cannot be decoded: %v", err)
		p.stop()
		return
	}
	p.pass(entry.Index - 1)
	if p.m == nil || entry.Index <= p.at {
		return
	}
	p.at = entry.Index
	if entry.Type != raft.LogCommand && entry.Type != raft.LogConfiguration {
		return
	}
	if err := Guarded(func() error { p.m.ApplyBatch([]*raft.Log{entry}); return nil }); err != nil {
		r.flaw(inLog, entry.Index, entry.Term, "the entry cannot be applied: %v", err)
		p.stop()
		return
	}
	r.State.Replayed++
}

// pass compares the state at index with a snapshot there, and records its hash if index is Config.At.
func (p *replayer) pass(index uint64) {
	if p.m == nil || p.at != index {
		return
	}
	sm := p.m.State().(Replay)
	for len(p.ahead) > 0 && p.ahead[0].Index <= index {
		if s := p.ahead[0]; s.Index == index && s.Hash != sm.Hash() {
			p.r.flaw(s.ID, s.Index, s.Term, "its state has the hash %s, and the log comes to %s there", s.Hash, sm.Hash())
		}
		p.ahead = p.ahead[1:]
	}
	if p.cfg.At != 0 && p.cfg.At == index {
		p.r.State.AtIndex, p.r.State.AtHash = index, sm.Hash()
	}
}

// end completes the StateReport after the last entry.
func (p *replayer) end(sound []SnapshotReport) {
	r := p.r
	if p.m != nil {
		p.pass(p.at)
		sm := p.m.State().(Replay)
		r.State.Index, r.State.Term, r.State.Hash = p.at, r.Log.LastTerm, sm.Hash()
		for _, broken := range sm.Check() {
			r.flaw(inState, p.at, r.Log.LastTerm, "an invariant is broken: %s", broken)
		}
	}
	if len(sound) == 0 {
		return
	}
	newest := sound[len(sound)-1]
	if p.m == nil && newest.Index >= r.Log.LastIndex || p.m != nil && newest.Index > p.at {
		r.State.From, r.State.Index, r.State.Term, r.State.Hash, r.State.Replayed = newest.ID, newest.Index, newest.Term, newest.Hash, 0
		p.m = nil
	}
	if p.cfg.At != 0 && r.State.AtHash == "" {
		for _, s := range sound {
			if s.Index == p.cfg.At {
				r.State.AtIndex, r.State.AtHash = s.Index, s.Hash
			}
		}
	}
}
