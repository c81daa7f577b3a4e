package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// damage is one way to damage the files of a stopped coordinator.
type damage struct {
	kind string
	// pattern matches the file to damage, below data_dir; of several files, the newest is damaged.
	pattern string
	spoil   func(file string) error
}

// damages are ways to damage the log in wal/, which new coordinators use, and the votes.
var damages = []damage{
	{"torn-log-page", newestSegment, tearMiddle},
	{"bit-of-the-newest-write", newestSegment, flipLast},
	{"lost-segment", newestSegment, os.Remove},
	{"torn-votes", "raft/raft.db", tearHead},
	{"truncated-log", newestSegment, cutShort},
	{"torn-list-of-segments", "raft/wal/wal-meta.db", tearHead},
}

// newestSegment matches the segments. The last match is the newest: the names are in the order of the entries.
const newestSegment = "raft/wal/*.wal"

// sector is the number of bytes that are overwritten.
const sector = 512

var garbage = []byte(strings.Repeat("torn page. ", sector/11+1))[:sector]

// tearHead overwrites the beginning of a file.
func tearHead(file string) error { return overwrite(file, 0, garbage) }

// tearMiddle overwrites a sector in the middle of the written part of a segment.
func tearMiddle(file string) error {
	b, err := written(file)
	if err != nil {
		return err
	}
	return overwrite(file, int64(len(b)/2/sector*sector), garbage)
}

// flipLast changes one bit of the last written bytes.
func flipLast(file string) error {
	b, err := written(file)
	if err != nil {
		return err
	}
	at := len(b) - 20
	return overwrite(file, int64(at), []byte{b[at] ^ 1})
}

// cutShort truncates a segment to a third of its written part.
func cutShort(file string) error {
	b, err := written(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, int64(len(b)/3))
}

// written returns the written part of a segment. The rest is allocated, and empty.
func written(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimRight(b, "\x00")
	if len(b) < 4*sector {
		return nil, fmt.Errorf("only %d bytes of %s are written: too few to be spoiled", len(b), file)
	}
	return b, nil
}

func overwrite(file string, at int64, with []byte) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(with, at)
	return errors.Join(err, f.Sync(), f.Close())
}

// Damage damages files of a follower while it is down, in a different way in each round. The follower must refuse to
// start, and say why; then it is removed from the voters and joins again with an empty folder, as its message says.
func Damage(rounds int, load Load) Attack {
	return Attack{
		Name: "damage", Load: load, Rounds: rounds, Between: 500 * time.Millisecond, Takes: true,
		Fault: func(ctx context.Context, f *Fight) error {
			d := damages[(f.Round-1)%len(damages)]
			if f.Cluster.Supervised() {
				return errors.New("a cluster that starts again what ended gives no time to spoil it: start it without --restart")
			}
			p, err := f.Cluster.Follower(ctx)
			if err != nil {
				return err
			}
			dir := filepath.Join(f.Cluster.Dir, "coordinators", p.ID)
			if err := f.Cluster.Kill(p); err != nil {
				return err
			}
			if err := f.Outage(ctx, d.kind, time.Now()); err != nil {
				return err
			}
			if err := f.Cluster.WaitGone(ctx, p); err != nil {
				return err
			}
			files, err := filepath.Glob(filepath.Join(dir, d.pattern))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("nothing at %s can be spoiled: %w", filepath.Join(dir, d.pattern), err)
			}
			if err := d.spoil(files[len(files)-1]); err != nil {
				return err
			}
			if err := f.refuses(ctx, p, d.kind, dir); err != nil {
				return err
			}
			return f.rejoin(ctx, p, dir)
		},
	}
}

// refuses starts the coordinator on the damaged files, and requires that it refuses to run.
func (f *Fight) refuses(ctx context.Context, p procs.Component, kind, dir string) error {
	before, err := f.logOf(p)
	if err != nil {
		return err
	}
	cmd, err := f.Cluster.Restart(p)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
		f.result.Harmed = append(f.result.Harmed, p.ID+" ran on what was spoiled ("+kind+")")
		return nil
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-ended
		return ctx.Err()
	}
	said, logErr := f.logOf(p)
	if logErr != nil {
		return logErr
	}
	said = said[len(before):]
	if err == nil || !strings.Contains(said, dir) || strings.Contains(said, "goroutine ") {
		f.result.Harmed = append(f.result.Harmed, fmt.Sprintf("%s did not say well why it refuses to start (%s, %v): %s", p.ID, kind, err, end(said)))
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	f.Log("round %d: %s: %s", f.Round, kind, lines[len(lines)-1])
	return nil
}

// rejoin carries out the operator's steps for a coordinator that has lost its disk.
func (f *Fight) rejoin(ctx context.Context, p procs.Component, dir string) error {
	remove := exec.CommandContext(ctx, f.Mind, "raft", "remove", p.ID)
	remove.Env = append(procs.Environ(), "MIND_DEV="+f.Cluster.Dir)
	if out, err := remove.CombinedOutput(); err != nil {
		return fmt.Errorf("taking %s out of the voters: %w: %s", p.ID, err, out)
	}
	if err := os.Rename(dir, fmt.Sprintf("%s.spoiled-%d", dir, f.Round)); err != nil {
		return err
	}
	info, err := f.Cluster.Info()
	if err != nil {
		return err
	}
	var others []string
	for _, c := range info.Coordinators {
		if c.ID != p.ID {
			others = append(others, c.GRPCAddr)
		}
	}
	file := p.Argv[len(p.Argv)-1]
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	delete(config, "peers")
	config["join_via"] = others
	if text, err = yaml.Marshal(config); err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if err := f.Cluster.Revive(ctx, p); err != nil {
		return fmt.Errorf("with an empty folder: %w", err)
	}
	// It is a learner first: until it has a vote, the cluster cannot spare another coordinator.
	return f.awaitVoters(ctx, len(info.Coordinators))
}
