package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
)

// Disk is the small disk of one coordinator.
type Disk struct {
	// Owner is the coordinator whose data_dir is on the disk.
	Owner string
	Dir   string
}

const filler = "filler"

// fill fills the free space.
func (d *Disk) fill() error {
	f, err := os.Create(filepath.Join(d.Dir, filler))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		if _, err := f.Write(block[:size]); err != nil {
			size /= 2
		}
	}
	return nil
}

func (d *Disk) free() error { return os.Remove(filepath.Join(d.Dir, filler)) }

// DiskFull fills the disk of a coordinator, as follower and as leader in turn, until it stops by itself and says why.
// The others continue; it must come back when there is space again.
func DiskFull(rounds int, load Load) Attack {
	return Attack{
		Name: "disk-full", Load: load, Rounds: rounds, Between: 500 * time.Millisecond, Takes: true,
		Fault: func(ctx context.Context, f *Fight) error {
			if f.Disk == nil {
				return errors.New("the cluster has no disk that can be filled")
			}
			owner, err := f.component(f.Disk.Owner)
			if err != nil {
				return err
			}
			kind := "disk-full-follower"
			if leader, err := f.Cluster.Leader(ctx); err != nil {
				return err
			} else if leader.ID == owner.ID {
				kind = "disk-full-leader"
			}
			before, err := f.logOf(owner)
			if err != nil {
				return err
			}
			filled := time.Now()
			if err := f.Disk.fill(); err != nil {
				return fmt.Errorf("filling the disk: %w", err)
			}
			defer func() { _ = f.Disk.free() }()
			stop, err := f.press(ctx)
			if err != nil {
				return err
			}
			err = f.Cluster.WaitGone(ctx, owner)
			stop()
			if err != nil {
				return fmt.Errorf("a coordinator whose disk is full should stop: %w", err)
			}
			f.Log("round %d: %s stopped %s after its disk was full", f.Round, owner.ID, time.Since(filled).Round(time.Millisecond))
			if err := f.Outage(ctx, kind, time.Now()); err != nil {
				return err
			}
			said, err := f.logOf(owner)
			if err != nil {
				return err
			}
			for _, text := range []string{"no space left on device", f.Disk.Dir, "make room"} {
				if !strings.Contains(said[len(before):], text) {
					f.result.Harmed = append(f.result.Harmed, fmt.Sprintf("%s stopped with a full disk and did not say %q: %s", owner.ID, text, end(said)))
				}
			}
			if strings.Contains(said[len(before):], "goroutine ") {
				f.result.Harmed = append(f.result.Harmed, owner.ID+" crashed when its disk was full: "+end(said))
			}
			if err := f.Disk.free(); err != nil {
				return err
			}
			if err := f.Cluster.Revive(ctx, owner); err != nil {
				return fmt.Errorf("with space again: %w", err)
			}
			if f.Round%2 == 1 {
				return f.lead(ctx, owner)
			}
			return nil
		},
	}
}

// press writes to the log until stop is called. A segment of the log is allocated before it is written, so a
// coordinator with a full disk continues until the segment is full.
func (f *Fight) press(ctx context.Context) (stop func(), err error) {
	rest, err := f.Cluster.REST()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			job := procs.Command(fmt.Sprintf("press-%d-%d", f.Round, n), 0, "/bin/true", strings.Repeat("x", 16<<10))
			if _, err := rest.Submit(ctx, "", job); err != nil {
				wait.For(ctx, 20*time.Millisecond)
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// lead kills leaders until the wanted coordinator leads.
func (f *Fight) lead(ctx context.Context, wanted procs.Component) error {
	for {
		leader, err := f.Cluster.Leader(ctx)
		if err != nil || leader.ID == wanted.ID {
			return err
		}
		if err := f.Cluster.Kill(leader); err != nil {
			return err
		}
		if err := f.Outage(ctx, "kill-leader", time.Now()); err != nil {
			return err
		}
		if err := f.Cluster.Revive(ctx, leader); err != nil {
			return err
		}
	}
}

func (f *Fight) component(name string) (procs.Component, error) {
	info, err := f.Cluster.Info()
	if err != nil {
		return procs.Component{}, err
	}
	for _, list := range [][]procs.Component{info.Coordinators, info.Agents} {
		for _, p := range list {
			if p.Name() == name {
				return p, nil
			}
		}
	}
	return procs.Component{}, fmt.Errorf("there is no component %q", name)
}

func (f *Fight) logOf(p procs.Component) (string, error) {
	text, err := os.ReadFile(filepath.Join(f.Cluster.Dir, "logs", p.Name()+".log"))
	return string(text), err
}

func end(text string) string { return text[max(0, len(text)-600):] }
