package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	saved "github.com/mindcoordinator/mind/archive/checkpoints"
)

// refusal is an error that another try soon will not fix.
type refusal struct{ error }

// files lists and opens the files of a checkpoint on the node.
type files struct {
	keeper *Keeper
	order  *v1.CheckpointOrder

	mu  sync.Mutex
	dir *safedir.Dir // nil: not opened yet
}

// list lists the files, if they are the registered ones.
func (f *files) list(ctx context.Context) (list []saved.File, err error) {
	dir, err := f.opened()
	if err != nil {
		return nil, err
	}
	// Another handle: a directory is read once from its start to its end.
	again, err := dir.Below(".")
	if err != nil {
		return nil, err
	}
	defer again.Close()
	if same, err := observe.Matches(ctx, again, f.order.GetManifestDigest()); !same {
		return nil, errors.Join(err, saved.ErrChanged)
	}
	walked, err := dir.Below(".")
	if err != nil {
		return nil, err
	}
	defer walked.Close()
	left := observe.MaxEntries
	err = walked.Walk(ctx, &left, func(e safedir.Entry) error {
		one := saved.File{Path: e.Path, Size: e.Size, Mode: e.Mode}
		switch {
		case e.Dir:
			return nil
		case e.Outside != "":
			return refusal{fmt.Errorf("%s is a link that leads out of the checkpoint: write the file itself into it", e.Path)}
		case e.Link:
			to, err := dir.Target(e.Path)
			if err != nil {
				return err
			}
			one = saved.File{Path: e.Path, Link: filepath.ToSlash(to)}
		case !e.Regular:
			return refusal{fmt.Errorf("%s is not a file: an archive holds files, directories and links", e.Path)}
		}
		list = append(list, one)
		return nil
	})
	return list, err
}

func (f *files) open(path string) (saved.Opened, error) {
	dir, err := f.opened()
	if err != nil {
		return nil, err
	}
	file, err := f.keeper.fileOf(f.order.GetTenantId(), dir, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errors.Join(saved.ErrChanged, err)
	case errors.Is(err, fs.ErrPermission):
		err = refusal{fmt.Errorf("the user of the job may not read %s", path)}
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// fileOf opens a file of a checkpoint with the rights of the tenant's user: a job must not have the agent read for it.
func (k *Keeper) fileOf(tenant string, dir *safedir.Dir, path string) (file *os.File, err error) {
	if k.cfg.As == nil {
		return dir.File(path)
	}
	if err := k.cfg.As(tenant, func() { file, err = dir.File(path) }); err != nil {
		return nil, refusal{err}
	}
	return file, err
}

// opened opens the directory, once: the whole upload reads this directory, even if another one is put in its place
// meanwhile.
func (f *files) opened() (*safedir.Dir, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dir != nil {
		return f.dir, nil
	}
	real, err := filepath.EvalSymlinks(f.order.GetPath())
	if err != nil {
		return nil, err
	}
	if f.keeper.hides(real, f.order.GetTenantId()) {
		return nil, refusal{errors.New("it leads to a directory of the agent or of another tenant")}
	}
	f.dir, err = safedir.Resolved(real)
	return f.dir, err
}

func (f *files) close() {
	if f.dir != nil {
		_ = f.dir.Close()
	}
}

// hides reports whether a directory belongs to the agent, or to a job of another tenant.
func (k *Keeper) hides(real, tenant string) bool {
	folder, err := filepath.EvalSymlinks(k.cfg.Outputs.Tenant(tenant))
	if err != nil {
		return k.cfg.Private.Reaches(real)
	}
	return k.cfg.Private.Reaches(real, folder)
}

// missing reports whether a path does not exist although its parent directory does. Without the parent directory, the
// file system may only not be mounted.
func missing(path string) bool {
	_, err := os.Lstat(path)
	_, above := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist) && above == nil
}

// ofAttempts matches the names of the directories that agents make in the folder of a job.
var ofAttempts = regexp.MustCompile(`^(attempt-[0-9]+|checkpoints)$`)

// ownOf splits a path at the directory that agents made for a job: above is the one that contains it, or its job folder, and
// below is the rest without the last name.
func (k *Keeper) ownOf(order *v1.CheckpointOrder) (above, below string, ok bool) {
	path := filepath.Clean(order.GetPath())
	if !filepath.IsAbs(path) || order.GetJobId() == "" {
		return "", "", false
	}
	tenant, job := k.cfg.Outputs.Tenant(order.GetTenantId()), taskid.Dir(order.GetJobId())
	parent := filepath.Dir(path)
	for at := parent; at != "/"; at = filepath.Dir(at) {
		dir, name := filepath.Dir(at), filepath.Base(at)
		switch {
		case filepath.Base(dir) == job && ofAttempts.MatchString(name):
			above = filepath.Dir(dir)
		case (dir == tenant || dir == filepath.Dir(tenant)) && len(name) > len(job) &&
			name[:len(job)+1] == job+"." && ofAttempts.MatchString(name[len(job)+1:]):
			above = dir
		default:
			continue
		}
		below, err := filepath.Rel(above, parent)
		return above, below, err == nil
	}
	return "", "", false
}

// goingPrefix is the prefix of a checkpoint that is being removed.
const goingPrefix = ".going-"

// removeFiles removes the files of a checkpoint. It is not an error if they do not exist. Files outside the job's
// directories, and files that differ from the registered ones, are left alone, also without an error.
func (k *Keeper) removeFiles(ctx context.Context, order *v1.CheckpointOrder) error {
	log := k.cfg.Log.With("checkpoint", order.GetCheckpointId(), "job", order.GetJobId(), "path", order.GetPath())
	above, below, ok := k.ownOf(order)
	if !ok {
		log.Info("the files of a checkpoint that is given up stay: they are not in a directory that Mind made for the job")
		return nil
	}
	above, err := filepath.EvalSymlinks(above)
	if err == nil {
		var top, parent *safedir.Dir
		if top, err = safedir.Resolved(above); err == nil {
			defer top.Close()
			if parent, err = top.Below(below); err == nil {
				defer parent.Close()
				return k.removeFrom(ctx, parent, order, log)
			}
		}
	}
	return k.stays(err, log)
}

// stays logs an error that another try does not fix, and returns nil for it; it returns any other error.
func (k *Keeper) stays(err error, log logger) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EXDEV):
		log.Info("the files of a checkpoint that is given up stay: a link leads to them")
		return nil
	}
	return err
}

type logger interface {
	Info(text string, args ...any)
}

// removeFrom removes a checkpoint from its parent directory.
func (k *Keeper) removeFrom(ctx context.Context, parent *safedir.Dir, order *v1.CheckpointOrder, log logger) error {
	root, err := parent.Root()
	if err != nil {
		return err
	}
	defer root.Close()
	// By this name the next try finds what this one leaves.
	going := goingPrefix + order.GetCheckpointId()
	if err := root.RemoveAll(going); err != nil {
		return err
	}
	name := filepath.Base(filepath.Clean(order.GetPath()))
	dir, err := parent.Below(name)
	if err != nil {
		return k.stays(err, log)
	}
	same, err := observe.Matches(ctx, dir, order.GetManifestDigest())
	_ = dir.Close()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !same:
		log.Info("the files of a checkpoint that is given up stay: they are not those that were registered", "error", err)
		return nil
	}
	if err := root.Rename(name, going); err != nil {
		return k.stays(err, log)
	}
	return root.RemoveAll(going)
}
