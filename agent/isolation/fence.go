package isolation

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mindcoordinator/mind/agent/isolation/devices"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// DeviceLabel is the label of a node with the devices that its tasks can open: DevicesLeased, DevicesListed or DevicesAll.
const DeviceLabel = "mind.io/devices"

// The values of DeviceLabel.
const (
	// DevicesLeased: a task opens those that are listed, and the GPUs of its lease.
	DevicesLeased = "leased"
	// DevicesListed: a task opens those that are listed, and all GPUs.
	DevicesListed = "listed"
	// DevicesAll: a task opens what its user may.
	DevicesAll = "all"
)

// fuse is for programs that mount, which need a node without walls around paths anyway.
const fuse = "/dev/fuse"

// openFilter prepares the filter of devices, which a kernel may lack.
func (i *Isolation) openFilter(cfg Config) error {
	more := cfg.Devices
	if slices.Contains(cfg.Paths, everywhere) {
		if _, err := os.Stat(fuse); err == nil {
			more = append(slices.Clone(more), fuse)
		}
	}
	if err := devices.Check(more); err != nil {
		return err
	}
	group := i.Task("try-devices")
	if err := freshGroup(group); err != nil {
		return err
	}
	defer confine.RemoveGroup(group)
	filter, err := devices.Open(devices.Config{Group: group, More: more, Log: cfg.Log})
	switch {
	case err == nil:
		i.filter = filter
	case len(cfg.Devices) > 0:
		return fmt.Errorf("devices cannot hold: %w", err)
	default:
		cfg.Log.Warn("JOBS CAN OPEN ALL DEVICES that their user may, GPUs of other jobs too: the kernel filters none (it needs CONFIG_CGROUP_BPF, and an agent of root)", "why", err)
	}
	return nil
}

// Devices returns the value of DeviceLabel.
func (i *Isolation) Devices() string {
	switch {
	case i.filter == nil:
		return DevicesAll
	case i.filter.All():
		return DevicesLeased
	}
	return DevicesListed
}

// Fence makes the control group of a task, in which it can open the GPUs of its lease alone. places is as for
// devices.Filter.Attach. The shim finds the group.
func (i *Isolation) Fence(group string, places []string) error {
	if i == nil || i.filter == nil || group == "" {
		return nil
	}
	if err := freshGroup(group); err != nil {
		return err
	}
	if err := i.filter.Attach(group, places); err != nil {
		confine.RemoveGroup(group)
		return err
	}
	return nil
}

// freshGroup makes a control group. One of the same name is empty: the task in it was never started.
func freshGroup(group string) error {
	err := os.Mkdir(group, 0o755)
	if errors.Is(err, os.ErrExist) {
		confine.RemoveGroup(group)
		err = os.Mkdir(group, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	return nil
}
