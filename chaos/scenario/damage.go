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

// damage is one way to spoil what a stopped coordinator keeps.
type damage struct {
	kind string
	// file to be spoiled, under its data_dir; of several, the newest.
	pattern string
	spoil   func(file string) error
}

// damages are of the log in wal/, which is what a new coordinator has, and of the votes.
var damages = []damage{
	{"torn-log-page", newestSegment, tearMiddle},
	{"bit-of-the-newest-write", newestSegment, flipLast},
	{"lost-segment", newestSegment, os.Remove},
	{"torn-votes", "raft/raft.db", tearHead},
	{"truncated-log", newestSegment, cutShort},
	{"torn-list-of-segments", "raft/wal/wal-meta.db", tearHead},
}

// newestSegment is the last of those that it matches: their names are in the order of their entries.
const newestSegment = "raft/wal/*.wal"

// sector is what is spoiled at once.
const sector = 512

var garbage = []byte(strings.Repeat("torn page. ", sector/11+1))[:sector]

// tearHead spoils the beginning of a file.
func tearHead(file string) error { return overwrite(file, 0, garbage) }

// tearMiddle spoils a sector in the middle of what was written to a segment.
func tearMiddle(file string) error {
	b, err := written(file)
	if err != nil {
		return err
	}
	return overwrite(file, int64(len(b)/2/sector*sector), garbage)
}

// flipLast changes one bit of what was written last.
func flipLast(file string) error {
	b, err := written(file)
	if err != nil {
		return err
	}
	at := len(b) - 20
	return overwrite(file, int64(at), []byte{b[at] ^ 1})
}

// cutShort keeps a third of what was written to a segment.
func cutShort(file string) error {
	b, err := written(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, int64(len(b)/3))
}

// written is what was written to a segment. What follows is allocated, and empty.
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

// Damage spoils what a follower keeps while it is down, in another way in each round. It must refuse to start, and say why;
// then it is taken out of the voters and joins again with an empty folder, as its message says.
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

// refuses starts the coordinator on what was spoiled.
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

// rejoin does what an operator does for a coordinator whose disk is lost.
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
	// It learns first: until it has a vote, no other can be spared.
	return f.awaitVoters(ctx, len(info.Coordinators))
}
