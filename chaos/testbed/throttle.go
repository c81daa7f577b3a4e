package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// throttle is a control group that limits the processor time of its processes.
type throttle struct {
	dir string
	v2  bool
	// outside is the group from which its processes came, and to which they return.
	outside string
}

// throttlePeriod is the period of the limit, in microseconds.
const throttlePeriod = 100_000

// newThrottle makes the group, or returns the reason why it cannot.
func newThrottle() (*throttle, error) {
	name := testrun.Name() + "-throttle"
	for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"} {
		if _, err := os.Stat(filepath.Join(root, "cpu.shares")); err == nil {
			b := &throttle{dir: filepath.Join(root, name), outside: root}
			return b, b.make("cpu.cfs_quota_us")
		}
	}
	const root = "/sys/fs/cgroup"
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil || !strings.Contains(" "+string(controllers)+" ", "cpu") {
		return nil, errors.New("there are no control groups that bound processor time (controller cpu) in /sys/fs/cgroup")
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
		return nil, fmt.Errorf("control groups that bound processor time: %w", err)
	}
	b := &throttle{dir: filepath.Join(root, name), outside: root, v2: true}
	return b, b.make("cpu.max")
}

// make makes the group, which must have the control file for the limit.
func (b *throttle) make(file string) error {
	if err := os.Mkdir(b.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("control groups that bound processor time: %w", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, file)); err != nil {
		return errors.Join(fmt.Errorf("control groups that bound processor time: %w", err), os.Remove(b.dir))
	}
	return nil
}

// Slow implements scenario.Throttle.
func (b *throttle) Slow(pids []int, part float64) error {
	quota := strconv.Itoa(int(part * throttlePeriod))
	var errs []error
	if b.v2 {
		errs = append(errs, b.write("cpu.max", quota+" "+strconv.Itoa(throttlePeriod)))
	} else {
		errs = append(errs, b.write("cpu.cfs_period_us", strconv.Itoa(throttlePeriod)), b.write("cpu.cfs_quota_us", quota))
	}
	for _, pid := range pids {
		errs = append(errs, b.write("cgroup.procs", strconv.Itoa(pid)))
	}
	return errors.Join(errs...)
}

// Release implements scenario.Throttle.
func (b *throttle) Release() error {
	if b.v2 {
		return b.write("cpu.max", "max")
	}
	return b.write("cpu.cfs_quota_us", "-1")
}

// remove removes the group; processes that are left in it return to where they came from.
func (b *throttle) remove() error {
	for {
		err := os.Remove(b.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		left, readErr := os.ReadFile(filepath.Join(b.dir, "cgroup.procs"))
		if readErr != nil || len(strings.Fields(string(left))) == 0 {
			return errors.Join(err, readErr)
		}
		for _, pid := range strings.Fields(string(left)) {
			// This fails for a process that has ended meanwhile, which does not matter.
			_ = os.WriteFile(filepath.Join(b.outside, "cgroup.procs"), []byte(pid), 0)
		}
	}
}

func (b *throttle) write(file, text string) error {
	if err := os.WriteFile(filepath.Join(b.dir, file), []byte(text), 0); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}
