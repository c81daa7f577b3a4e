// Command levels runs a command, such as tests, once at each level of isolation that this machine has. It says loudly which levels it has
// not, and exits with 1 if the command failed at one.
//
// Where cgroup v2 is not mounted and the user is root, the command runs in a mount namespace in which it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func main() { os.Exit(testrun.Main(levels)) }

func levels() int {
	list := flag.String("levels", "none,cgroup", "the levels, of "+strings.Join(isolation.Levels(), ", "))
	probe := flag.String("probe", "", "only find out whether this machine has this level")
	flag.Parse()
	if *probe != "" {
		if err := has(*probe); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "levels: no command: levels -levels none,cgroup go test ./agent")
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*list, ","), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "levels:", err)
		return 1
	}
	return 0
}

// has returns an error if an agent of this machine cannot have a level.
func has(level string) error {
	dir, err := os.MkdirTemp("", "levels-")
	if err != nil {
		return fmt.Errorf("make a data directory: %w", err)
	}
	defer os.RemoveAll(dir)
	i, err := isolation.Open(isolation.Config{Level: level, Node: "levels", DataDir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	i.Close()
	return nil
}

func run(ctx context.Context, levels, argv []string) error {
	mounted, err := mounted()
	if err != nil {
		return err
	}
	command := func(argv ...string) *exec.Cmd {
		if mounted || os.Geteuid() != 0 {
			return exec.CommandContext(ctx, argv[0], argv[1:]...)
		}
		cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `mount -t cgroup2 none "$0" && exec "$@"`, leveltest.Mounts[0]}, argv...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		return cmd
	}
	// Users of tests pass through the directory of this run to that of theirs.
	if err := os.Chmod(os.TempDir(), 0o711); err != nil {
		return fmt.Errorf("open the directory of this run: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	var faults []error
	for _, level := range levels {
		if err := isolation.Check(level); err != nil {
			return err
		}
		if out, err := command(self, "-probe", level).CombinedOutput(); err != nil {
			fmt.Printf("== SKIPPED: isolation %s: %v: %s\n", level, err, strings.TrimSpace(string(out)))
			continue
		}
		fmt.Printf("== isolation %s\n", level)
		cmd := command(argv...)
		cmd.Env = append(os.Environ(), leveltest.Env+"="+level)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			faults = append(faults, fmt.Errorf("isolation %s: %w", level, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
}

// mounted reports whether cgroup v2 is mounted anywhere.
func mounted() (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("look for cgroup v2: %w", err)
	}
	return strings.Contains(string(text), " - cgroup2 "), nil
}
