// Package disk bounds the space that a job takes on a node's disk: its directories get a project, and the file system holds the project to its
// quota.
//
// Contract: Open is called once, for the directory below which the directories of jobs are. Bound is called before each start of a task,
// with directories that exist. Full is asked when a task has failed, before its directories are removed.
//
// Guarantees: a directory that Bound has returned for, and all that is made in it later, belongs to the project of its job and of no other
// one. Projects live on the disk: agents that are started again find them. Open fails where the file system does not hold quotas.
//
// Not guaranteed: that a program stays within its quota against its will. The owner of a file may take it out of its project (chattr -p), and
// processes with CAP_SYS_RESOURCE are not held to quotas.
package disk

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
)

// Projects of jobs have these numbers: far from those that people choose for /etc/projects, and few enough that the file with the quotas,
// which has an entry for each number that was ever used, stays small.
const (
	firstProject = 0x4d100000
	projects     = 1 << 20
)

// Quotas bound the directories of jobs below one directory.
type Quotas struct {
	base   *os.File
	device uint64 // of base
	bytes  int64

	mu sync.Mutex // held while a project is chosen
}

// Open prepares quotas of so many MiB for each job in a directory, which exists.
func Open(dir string, mb int) (_ *Quotas, err error) {
	base, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the jobs: %w", err)
	}
	q := &Quotas{base: base, bytes: int64(mb) << 20}
	defer func() {
		if err != nil {
			_ = base.Close()
		}
	}()
	var stat unix.Stat_t
	if err := unix.Fstat(int(base.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("look at the directory of the jobs: %w", err)
	}
	q.device = stat.Dev
	enforced, err := q.enforced()
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the disk of %s for its project quotas: %w; %s", dir, err, advice)
	case !enforced:
		return nil, fmt.Errorf("the disk of %s does not hold project quotas: %s", dir, advice)
	}
	return q, q.try(dir)
}

// advice says what to do where there are no quotas.
const advice = "mount it with prjquota (an ext4 also needs tune2fs -O project -Q prjquota), and run the agent as root"

// try gives a directory a project and a quota, and removes it.
func (q *Quotas) try(dir string) error {
	probe, err := os.MkdirTemp(dir, ".quota-")
	if err != nil {
		return fmt.Errorf("try a quota in %s: %w", dir, err)
	}
	defer os.Remove(probe)
	if err := q.Bound(filepath.Base(probe), []string{probe}, nil); err != nil {
		return fmt.Errorf("try a quota in %s: %w; %s", dir, err, advice)
	}
	return nil
}

// Close closes the directory.
func (q *Quotas) Close() { _ = q.base.Close() }

// MB is the quota of a job in MiB.
func (q *Quotas) MB() int64 { return q.bytes >> 20 }

// Bound puts directories of a job into its project, and sets the quota of it. Those that do not lie in the directory of all jobs and on its
// disk, or that a link leads to, are left out. Of trees, files or directories of the task with all that is in them, the same holds; nobody
// else may change them meanwhile.
func (q *Quotas) Bound(job string, dirs, trees []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	open, err := q.openAll(dirs)
	defer closeAll(open)
	if err != nil {
		return err
	}
	// A directory of an earlier attempt has it already.
	project, err := projectOfAny(open)
	if err != nil {
		return err
	}
	if project == 0 {
		if project, err = q.free(job); err != nil {
			return err
		}
	}
	if err := q.limit(project); err != nil {
		return err
	}
	for _, f := range open {
		if err := q.enter(f, project); err != nil {
			return err
		}
	}
	for _, tree := range trees {
		if err := q.enterTree(tree, project); err != nil {
			return fmt.Errorf("bound the files of the task: %w", err)
		}
	}
	return nil
}

// Full returns how much a job with these directories takes, in MiB, if that is nearly all of its quota: its programs were refused space, or
// are about to be. 0: it has space left, or no quota.
func (q *Quotas) Full(dirs []string) int64 {
	open, err := q.openAll(dirs)
	defer closeAll(open)
	if err != nil {
		return 0
	}
	project, err := projectOfAny(open)
	if err != nil || project == 0 {
		return 0
	}
	usage, err := q.usage(project)
	if err != nil || usage.bytes < q.bytes-max(1<<20, q.bytes/100) {
		return 0
	}
	return (usage.bytes + 1<<20 - 1) >> 20
}

func (q *Quotas) openAll(dirs []string) (open []*os.File, err error) {
	for _, dir := range dirs {
		f, err := q.open(dir)
		if err != nil {
			return open, err
		}
		if f != nil {
			open = append(open, f)
		}
	}
	return open, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// projectOfAny returns the project of a job that one of its directories has; 0: none has one.
func projectOfAny(files []*os.File) (uint32, error) {
	for _, f := range files {
		project, err := projectOf(f)
		if err != nil {
			return 0, err
		}
		if project >= firstProject && project < firstProject+projects {
			return project, nil
		}
	}
	return 0, nil
}

// open opens a directory in that of all jobs; nil: it lies elsewhere.
func (q *Quotas) open(dir string) (*os.File, error) {
	base := q.base.Name()
	if dir == base || !safedir.Within(dir, base) {
		return nil, nil
	}
	path, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, fmt.Errorf("open a directory of the job: %w", err)
	}
	fd, err := unix.Openat2(int(q.base.Fd()), path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil, nil
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// enterTree puts a file, or a directory with all that is in it, into a project. Links are left as they are.
func (q *Quotas) enterTree(path string, project uint32) error {
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !entry.IsDir() && !entry.Type().IsRegular():
			return nil
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		f := os.NewFile(uintptr(fd), path)
		return errors.Join(q.enter(f, project), f.Close())
	})
}

// free finds a project without files. The search begins at a number that depends on the job, so that agents that share a disk do not
// all look at the same ones.
func (q *Quotas) free(job string) (uint32, error) {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(job))
	for n := range uint32(projects) {
		project := firstProject + (sum.Sum32()+n)%projects
		usage, err := q.usage(project)
		if err != nil {
			return 0, err
		}
		if usage.inodes == 0 {
			return project, nil
		}
	}
	return 0, fmt.Errorf("all %d projects on the disk of %s have files", projects, q.base.Name())
}
