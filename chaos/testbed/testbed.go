// Package testbed starts the cluster that an attack needs, and stops it.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/chaos/netns"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
)

// startWithin is how long a cluster may take to be ready, on a slow machine.
const startWithin = 2 * time.Minute

// Lacks returns the reason why an attack cannot be carried out on this machine; empty: it can.
func Lacks(e scenario.Entry) string {
	switch {
	case e.Namespaces:
		if err := netns.Available(); err != nil {
			return err.Error()
		}
	case e.Throttle:
		b, err := newThrottle()
		if err == nil {
			err = b.remove()
		}
		if err != nil {
			return err.Error()
		}
	case e.Disk && os.Geteuid() != 0:
		return "a disk that can be filled is a small tmpfs, which only root can mount"
	}
	return ""
}

// Run starts a cluster with its state in dir, attacks it, and stops it.
func Run(ctx context.Context, mind, dir string, e scenario.Entry, log func(format string, args ...any)) (v result.Result, err error) {
	v.Scenario = e.Attack.Name
	arena := scenario.Arena{Mind: mind, Scratch: dir, Log: log}
	stop, err := set(ctx, &arena, mind, dir, e)
	if err != nil {
		return v, fmt.Errorf("%s: starting a cluster: %w", e.Attack.Name, err)
	}
	v, err = e.Attack.Run(ctx, arena)
	if err = errors.Join(err, stop()); err != nil {
		return v, fmt.Errorf("%s: %w", e.Attack.Name, err)
	}
	return v, nil
}

func set(ctx context.Context, arena *scenario.Arena, mind, dir string, e scenario.Entry) (stop func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if e.Namespaces {
		state := filepath.Join(dir, "data")
		if err := os.MkdirAll(state, 0o755); err != nil {
			return nil, err
		}
		c, err := netns.Start(ctx, mind, state, 3, e.Agents, e.GPUs)
		if err != nil {
			return nil, err
		}
		arena.Cluster, arena.Network = c.Cluster, c
		return c.Stop, nil
	}
	unmount := func() error { return nil }
	if e.Disk {
		if arena.Disk, unmount, err = smallDisk(dir, "c2"); err != nil {
			return nil, err
		}
	}
	release := func() error { return nil }
	if e.Throttle {
		b, err := newThrottle()
		if err != nil {
			return nil, err
		}
		arena.Throttle, release = b, b.remove
	}
	args := []string{"--agents", fmt.Sprint(e.Agents), "--gpus", e.GPUs, "--http", "127.0.0.1:0"}
	if e.Restart {
		args = append(args, "--restart")
	}
	if arena.Cluster, err = procs.Start(ctx, mind, dir, args...); err != nil {
		return nil, errors.Join(err, unmount(), release())
	}
	return func() error { return errors.Join(arena.Cluster.Stop(), unmount(), release()) }, nil
}

// smallDisk mounts a disk of 24 MiB on the data directory of a coordinator of a `mind dev` in dir.
func smallDisk(dir, owner string) (*scenario.Disk, func() error, error) {
	d := &scenario.Disk{Owner: owner, Dir: filepath.Join(dir, "data", "coordinators", owner)}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, nil, err
	}
	if err := unix.Mount("tmpfs", d.Dir, "tmpfs", 0, "size=24m,mode=0700"); err != nil {
		return nil, nil, fmt.Errorf("mounting a small disk: %w", err)
	}
	return d, func() error { return unix.Unmount(d.Dir, 0) }, nil
}
