package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/machine"
)

// StoredSnapshot is the description that raft stores beside the bytes of a snapshot.
type StoredSnapshot struct {
	raft.SnapshotMeta
	CRC []byte
}

// SnapshotsPath returns the folder of the snapshots in the directory of a replica.
func SnapshotsPath(dir string) string { return filepath.Join(dir, "snapshots", "snapshots") }

// verifySnapshots restores each snapshot into a new state machine.
func verifySnapshots(ctx context.Context, r *Report, cfg Config) {
	entries, err := os.ReadDir(SnapshotsPath(cfg.Dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.flaw("snapshots", 0, 0, "they cannot be listed: %v", err)
	}
	for _, e := range entries {
		switch {
		case !e.IsDir() || ctx.Err() != nil:
		case strings.HasSuffix(e.Name(), ".tmp"):
			r.note("snapshot %s was never finished; it is not used", e.Name())
		default:
			verifySnapshot(r, cfg, e.Name())
		}
	}
	slices.SortFunc(r.Snapshots, func(a, b SnapshotReport) int {
		if a.Index != b.Index {
			return int(int64(a.Index) - int64(b.Index))
		}
		return strings.Compare(a.ID, b.ID)
	})
	// Later changes of membership in the log replace these members.
	if n := len(r.Snapshots); n > 0 {
		r.Members = r.Snapshots[n-1].members
	}
}

func verifySnapshot(r *Report, cfg Config, id string) {
	s := SnapshotReport{ID: id, Voters: []string{}}
	defer func() { r.Snapshots = append(r.Snapshots, s) }()
	m, meta, err := RestoreSnapshot(cfg, id)
	if meta != nil {
		s.Index, s.Term, s.Version, s.Bytes = meta.Index, meta.Term, int(meta.Version), meta.Size
		s.members = MembersOf(meta.Configuration)
		for _, m := range s.members {
			if m.Voter {
				s.Voters = append(s.Voters, m.ID)
			}
		}
	}
	if err != nil {
		r.flaw(id, s.Index, s.Term, "%v", err)
		return
	}
	if reached := m.Applied(); reached > meta.Index {
		r.flaw(id, s.Index, s.Term, "the state in it is of index %d, it is said to be of %d", reached, meta.Index)
		return
	}
	if len(s.Voters) == 0 {
		r.flaw(id, s.Index, s.Term, "it knows of no voter")
		return
	}
	sm := m.State().(Replay)
	s.Hash, s.Sound = sm.Hash(), true
	for _, broken := range sm.Check() {
		s.Sound = false
		r.flaw(id, s.Index, s.Term, "the state in it breaks an invariant: %s", broken)
	}
}

// RestoreSnapshot reads one snapshot and checks it. meta is nil if the description cannot be read.
func RestoreSnapshot(cfg Config, id string) (m *machine.Machine, meta *StoredSnapshot, err error) {
	err = Guarded(func() error {
		dir := filepath.Join(SnapshotsPath(cfg.Dir), id)
		text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
		if err != nil {
			return fmt.Errorf("its description cannot be read: %w", err)
		}
		read := &StoredSnapshot{}
		if err := json.Unmarshal(text, read); err != nil {
			return fmt.Errorf("its description is damaged: %w", err)
		}
		meta = read
		if meta.ID != id {
			return fmt.Errorf("its description is that of %q", meta.ID)
		}
		if meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
			return fmt.Errorf("version %d of raft's snapshots is not known", meta.Version)
		}
		path := filepath.Join(dir, "state.bin")
		if err := checkSum(path, meta); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		m = machine.New(cfg.New())
		return m.Restore(f)
	})
	return m, meta, err
}

func checkSum(path string, meta *StoredSnapshot) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("its state cannot be read: %w", err)
	}
	defer f.Close()
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	n, err := io.Copy(sum, f)
	switch {
	case err != nil:
		return fmt.Errorf("its state cannot be read: %w", err)
	case n != meta.Size:
		return fmt.Errorf("it has %d bytes and should have %d", n, meta.Size)
	case !bytes.Equal(sum.Sum(nil), meta.CRC):
		return errors.New("its checksum is wrong: it is damaged")
	}
	return nil
}
