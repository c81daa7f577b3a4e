package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/safedir"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ErrNotServed means that this node does not serve the checkpoint to other nodes.
var ErrNotServed = errors.New("it is not in a directory that Mind made for the job, or a link leads to it")

// Served is a checkpoint that is open for another node to fetch.
type Served struct {
	keeper *Keeper
	tenant string
	dir    *safedir.Dir
}

// Serve opens a registered checkpoint of this node for another node. It must be in a directory that agents made for its
// job, and no link is followed to it.
func (k *Keeper) Serve(of *v1.GetServedCheckpointResponse) (*Served, error) {
	point := of.GetCheckpoint()
	above, below, ok := k.ownOf(&v1.CheckpointOrder{JobId: of.GetJobId(), TenantId: of.GetTenantId(), Path: point.GetPath()})
	if !ok {
		return nil, ErrNotServed
	}
	above, err := filepath.EvalSymlinks(above)
	if err != nil {
		return nil, err
	}
	below = filepath.Join(below, filepath.Base(filepath.Clean(point.GetPath())))
	if k.hides(filepath.Join(above, below), of.GetTenantId()) {
		return nil, ErrNotServed
	}
	top, err := safedir.Resolved(above)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	dir, err := top.Below(below)
	if err != nil {
		return nil, errors.Join(ErrNotServed, err)
	}
	return &Served{k, of.GetTenantId(), dir}, nil
}

// Close closes the checkpoint.
func (s *Served) Close() { _ = s.dir.Close() }

// List calls each with each file, if the files are the registered ones.
func (s *Served) List(ctx context.Context, digest string, each func(*v1.CheckpointFile) error) error {
	whole, err := s.dir.Below(".")
	if err != nil {
		return err
	}
	defer whole.Close()
	if same, err := observe.Matches(ctx, whole, digest); !same {
		return errors.Join(errors.New("its files are not those that were registered"), err)
	}
	walked, err := s.dir.Below(".")
	if err != nil {
		return err
	}
	defer walked.Close()
	left := observe.MaxEntries
	return walked.Walk(ctx, &left, func(e safedir.Entry) error {
		one := &v1.CheckpointFile{Path: e.Path, Size: e.Size, Mode: e.Mode, Modified: e.Changed.Nano()}
		switch {
		case e.Dir:
			return nil
		case e.Outside != "":
			return fmt.Errorf("%s is a link that leads out of the checkpoint", e.Path)
		case e.Link:
			to, err := s.dir.Target(e.Path)
			if err != nil {
				return err
			}
			one.Link, one.Mode = filepath.ToSlash(to), 0
		case !e.Regular:
			return fmt.Errorf("%s is not a file", e.Path)
		default:
			file, err := s.keeper.fileOf(s.tenant, s.dir, e.Path)
			if err != nil {
				return err
			}
			one.Version, err = version(file)
			_ = file.Close()
			if err != nil {
				return err
			}
		}
		return each(one)
	})
}

// ErrOtherVersion means that a file is not the one that was listed.
var ErrOtherVersion = errors.New("the file has changed since it was listed")

// Open opens a file, if it is the version that was listed. After reading it, call unchanged: it returns an error if the
// file has changed meanwhile.
func (s *Served) Open(path, listed string) (file *os.File, unchanged func() error, err error) {
	file, err = s.keeper.fileOf(s.tenant, s.dir, path)
	if err != nil {
		return nil, nil, err
	}
	unchanged = func() error {
		is, err := version(file)
		if err == nil && is != listed {
			err = ErrOtherVersion
		}
		return err
	}
	if err := unchanged(); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, unchanged, nil
}

// version identifies the contents of a file, as far as its node can tell without reading them.
func version(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(info.Size(), 10) + "@" + strconv.FormatInt(info.ModTime().UnixNano(), 10), nil
}
