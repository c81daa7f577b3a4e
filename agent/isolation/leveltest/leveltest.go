// Package leveltest says at which level of isolation tests run their agents and tasks.
//
// Contract: the variable MIND_ISOLATION has the level. Without it, agents take the one that they take without a configuration, and tests that
// start tasks without an agent have none. A level that the machine does not have makes the tests fail: `make levels` finds out before.
package leveltest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/isolation"
)

// Env is the variable with the level.
const Env = "MIND_ISOLATION"

// Level returns the level; empty: that of an agent without a configuration.
func Level() isolation.Level {
	level := os.Getenv(Env)
	if err := isolation.Check(level); err != nil {
		panic(fmt.Sprintf("%s: %v", Env, err))
	}
	return isolation.Level(level)
}

// Mounts are the usual places of cgroup v2.
var Mounts = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// Group makes a control group in which a test may make others. Its name begins with testrun.Name() and a dash.
func Group(name string) (dir string, err error) {
	for _, root := range Mounts {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
			return dir, nil
		}
		_ = os.Remove(dir)
	}
	return "", errors.New("there is no writable cgroup v2 here")
}
