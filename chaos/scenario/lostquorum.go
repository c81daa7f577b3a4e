package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
	"github.com/mindcoordinator/mind/chaos/workload"
)

const (
	// behind is the time from the submit of the late jobs to their start. Only coordinators that die know that these
	// jobs run.
	behind = 2 * time.Second
	// lateJobs is the number of such jobs.
	lateJobs = 3
	// comesLate is how long after the recovery the slowest node comes back: before the leases of those jobs expire.
	comesLate = 4 * time.Second
)

// LostQuorum kills all coordinators and deletes the disks of two of three. The third one was stopped for a while
// before, so it lacks acknowledged entries. It is recovered according to the runbook, and the others come back with
// empty disks.
func LostQuorum(rounds int, load Load) Attack {
	return Attack{
		Name: "lost-quorum", Load: load, Rounds: rounds, Between: time.Second, Replaces: true,
		Fault: func(ctx context.Context, f *Fight) error {
			if f.Cluster.Supervised() {
				return errors.New("a cluster that starts again what ended gives no time to delete disks: start it without --restart")
			}
			survivor, err := f.Cluster.Follower(ctx)
			if err != nil {
				return err
			}
			info, err := f.Cluster.Info()
			if err != nil {
				return err
			}
			release, err := f.settle(ctx)
			defer release()
			if err != nil {
				return err
			}
			// In the survivor's state these jobs are pending; the coordinators that die start them.
			if err := f.fleet.Late(ctx, f.Round, lateJobs, time.Now().Add(behind)); err != nil {
				return err
			}
			if err := f.Cluster.WaitCaughtUp(ctx); err != nil {
				return err
			}
			// Writes that are acknowledged from here on may be lost, and earlier ones may not.
			if err := f.Cluster.Signal(survivor, syscall.SIGSTOP); err != nil {
				return err
			}
			sure := f.writers.Unsure()
			release()
			for _, j := range f.fleet.All[len(f.fleet.All)-lateJobs:] {
				if err := f.fleet.AwaitLife(ctx, j); err != nil {
					return err
				}
			}
			// An agent that runs such a job comes back later than the others.
			slow, err := f.hostOf(info, f.fleet.All[len(f.fleet.All)-1])
			if err != nil {
				return err
			}
			if err := f.Cluster.Signal(slow, syscall.SIGSTOP); err != nil {
				return err
			}
			killed := time.Now()
			if err := f.killAll(ctx, info.Coordinators); err != nil {
				return err
			}
			dir := func(p procs.Component) string { return filepath.Join(f.Cluster.Dir, "coordinators", p.ID) }
			for _, p := range info.Coordinators {
				if p.ID != survivor.ID {
					if err := os.RemoveAll(dir(p)); err != nil {
						return err
					}
				}
			}
			out, err := f.mind(ctx, "raft", "recover", "--data-dir", dir(survivor), "--voter", survivor.ID+"="+survivor.RaftAddr, "--i-know-others-are-dead")
			if err != nil {
				return err
			}
			f.Log("round %d: %s", f.Round, out)
			// An answer from before may have been in flight until here.
			sure()
			if err := f.Cluster.Revive(ctx, survivor); err != nil {
				return err
			}
			if err := f.Outage(ctx, "lost-quorum", killed); err != nil {
				return err
			}
			select {
			case <-time.After(comesLate):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := f.Cluster.Signal(slow, syscall.SIGCONT); err != nil {
				return err
			}
			for _, p := range info.Coordinators {
				if p.ID == survivor.ID {
					continue
				}
				if err := f.Cluster.Revive(ctx, p); err != nil {
					return err
				}
			}
			return f.awaitVoters(ctx, len(info.Coordinators))
		},
	}
}

// hostOf returns the agent of the node on which a process of the job is alive.
func (f *Fight) hostOf(info procs.Info, j *users.Job) (procs.Component, error) {
	lives, err := workload.Lives(f.fleet.Dir, j.ID)
	if err != nil {
		return procs.Component{}, err
	}
	for _, a := range info.Agents {
		if len(lives) > 0 && a.NodeID == lives[len(lives)-1].Node {
			return a, nil
		}
	}
	return procs.Component{}, fmt.Errorf("no agent has %s", j)
}

// settle stops the clients from submitting until release is called, and waits until every job that they have submitted
// has ended.
func (f *Fight) settle(ctx context.Context) (release func(), err error) {
	release, ids := f.writers.Hold()
	for _, id := range ids {
		if _, err := f.REST.WaitEnded(ctx, id); err != nil {
			return release, err
		}
	}
	return release, nil
}

// mind runs the command line against the cluster.
func (f *Fight) mind(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.Mind, args...)
	cmd.Env = append(procs.Environ(), "MIND_DEV="+f.Cluster.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mind %v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// awaitVoters waits until a number of coordinators are voters and answer.
func (f *Fight) awaitVoters(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, writesWithin)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, f.Mind, "raft", "peers", "-o", "json")
		cmd.Env = append(procs.Environ(), "MIND_DEV="+f.Cluster.Dir)
		var got struct {
			Peers []struct {
				Voter  bool   `json:"voter"`
				Health string `json:"health"`
			} `json:"peers"`
		}
		if out, err := cmd.Output(); err == nil && json.Unmarshal(out, &got) == nil {
			voters := 0
			for _, p := range got.Peers {
				if p.Voter && p.Health == "answers" {
					voters++
				}
			}
			if voters == want {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d voters: %w", want, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
