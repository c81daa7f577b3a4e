package disk

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of quotactl(2) for projects: sys/quota.h, dqblk_xfs.h.
const (
	projectQuota = 2

	getQuota = 0x800007<<8 | projectQuota
	setQuota = 0x800008<<8 | projectQuota
	getState = ('X'<<8+5)<<8 | projectQuota

	// enforcedFlag, in the flags of the state: projects are held to their quotas.
	enforcedFlag = 1 << 5
	// validLimits: a call sets the limits of space.
	validLimits = 1
	// limitUnit is the unit of limits, in bytes.
	limitUnit = 1024
)

// quotaEntry is struct if_dqblk.
type quotaEntry struct {
	hard, soft, space, fileHard, fileSoft, files, spaceTime, fileTime uint64
	valid                                                             uint32
	_                                                                 uint32
}

// quotaState is struct fs_quota_stat.
type quotaState struct {
	version int8
	flags   uint16
	_       [96]byte
}

func (q *Quotas) call(command uint32, project uint32, into unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, q.base.Fd(), uintptr(command), uintptr(project), uintptr(into), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("quotactl", errno)
	}
	return nil
}

// enforced reports whether the file system holds projects to their quotas, and does not only count.
func (q *Quotas) enforced() (bool, error) {
	var state quotaState
	err := q.call(getState, 0, unsafe.Pointer(&state))
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOTBLK) || errors.Is(err, unix.EINVAL) {
		return false, nil // this file system, or this mount, has none
	}
	return err == nil && state.flags&enforcedFlag != 0, err
}

// used says how much a project takes.
type used struct{ bytes, inodes int64 }

func (q *Quotas) usage(project uint32) (used, error) {
	var entry quotaEntry
	err := q.call(getQuota, project, unsafe.Pointer(&entry))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return used{}, nil // it never had files
	}
	if err != nil {
		return used{}, fmt.Errorf("read the quota of project %d: %w", project, err)
	}
	return used{int64(entry.space), int64(entry.files)}, nil
}

// limit sets the quota of a project.
func (q *Quotas) limit(project uint32) error {
	entry := quotaEntry{hard: uint64(q.bytes) / limitUnit, valid: validLimits}
	if err := q.call(setQuota, project, unsafe.Pointer(&entry)); err != nil {
		return fmt.Errorf("set the quota of project %d: %w", project, err)
	}
	return nil
}

// Calls for the attributes of files: linux/fs.h.
const (
	getAttributes = 0x801c581f
	setAttributes = 0x401c5820

	// inherits: what is made in a directory belongs to its project.
	inherits = 0x200
)

// attributes is struct fsxattr.
type attributes struct {
	flags, extent, extents, project, cowExtent uint32
	_                                          [8]byte
}

func (a *attributes) call(f *os.File, request uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return &os.PathError{Op: "change the project of", Path: f.Name(), Err: errno}
	}
	return nil
}

func projectOf(f *os.File) (uint32, error) {
	var a attributes
	err := a.call(f, getAttributes)
	return a.project, err
}

// enter puts a file or a directory into a project, if it is on the disk that has it.
func (q *Quotas) enter(f *os.File, project uint32) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return &os.PathError{Op: "look at", Path: f.Name(), Err: err}
	}
	if stat.Dev != q.device {
		return nil
	}
	var a attributes
	if err := a.call(f, getAttributes); err != nil {
		return err
	}
	flags := a.flags
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags |= inherits
	}
	if a.project == project && a.flags == flags {
		return nil
	}
	a.project, a.flags = project, flags
	return a.call(f, setAttributes)
}
