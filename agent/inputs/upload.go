package inputs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/uploads"
)

// UploadDir is the directory, in a task directory, with the files that the user sent with the job.
const UploadDir = "upload"

// upload is an upload that is on the node.
type upload struct {
	id   string
	tree *uploads.Stored
	at   string // the directory with its files
}

func uploadOf(spec *v1.TaskSpec) string { return spec.GetJob().GetCommandConfig().GetUpload() }

// fetchUpload brings the upload of a task to the node, and unpacks it. It returns nil if the task has none. The node caches the
// packs: the tasks of a job share them, and jobs whose uploads differ little share most of them.
func (in *Inputs) fetchUpload(ctx context.Context, task taskid.ID, spec *v1.TaskSpec, fetch func(datacache.Request) (*datacache.Data, error)) (*upload, error) {
	id := uploadOf(spec)
	if id == "" {
		return nil, nil
	}
	if in.cfg.Archive == nil {
		return nil, fmt.Errorf("upload %s: node %s has no archive: set checkpoint_archive of its agent to that of the gateways", id, in.node)
	}
	tree, err := loadTree(ctx, in.cfg.Archive, spec.GetTenantId(), id)
	switch {
	case errors.Is(err, uploads.ErrUnknown):
		return nil, fmt.Errorf("upload %s: the archive of node %s does not have it: submit the job again with mind submit --upload, or set checkpoint_archive of the agent to that of the gateways", id, in.node)
	case ctx.Err() != nil:
		return nil, errors.New("stopped while its upload was being fetched")
	case err != nil:
		return nil, fmt.Errorf("upload %s: node %s cannot read it: %w", id, in.node, err)
	}
	var packs []*datacache.Data
	for _, pack := range tree.Packs {
		key := uploads.PackKey(spec.GetTenantId(), pack.Name)
		data, err := fetch(datacache.Request{Path: key, What: "pack", Object: &sources.Object{Key: key, SHA256: pack.SHA256, Size: pack.Size}})
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", id, err)
		}
		packs = append(packs, data)
	}
	u := &upload{id: id, tree: tree}
	err = in.unpack(ctx, task, u, packs)
	u.tree = nil // the task may run for weeks
	return u, err
}

// loadTree reads a tree. The archive may not answer for a moment, or a collector may be moving the tree back; a job should not fail by
// that.
func loadTree(ctx context.Context, store archive.Store, tenant, id string) (tree *uploads.Stored, err error) {
	const tries = 4
	for n := range tries {
		if n > 0 {
			wait.For(ctx, time.Second<<n)
		}
		tree, err = uploads.Load(ctx, store, tenant, id)
		unknown := errors.Is(err, uploads.ErrUnknown) && n > 0
		if err == nil || unknown || errors.As(err, new(uploads.Invalid)) || errors.Is(err, uploads.ErrDamaged) || ctx.Err() != nil {
			break
		}
	}
	return tree, err
}

// unpackedDir, in the data directory, has unpacked uploads until they are moved into the directories of their tasks.
const unpackedDir = "unpacked"

// unpack writes the files of an upload for one task. Damage is found here, where it is the fault of the data and not of the
// node.
func (in *Inputs) unpack(ctx context.Context, id taskid.ID, u *upload, packs []*datacache.Data) error {
	u.at = filepath.Join(in.unpacked, id.Name())
	err := os.RemoveAll(u.at) // an earlier try
	if err == nil {
		err = os.MkdirAll(u.at, 0o700)
	}
	if err == nil {
		err = u.tree.Unpack(ctx, u.at, func(pack int) (*os.File, error) {
			return os.Open(filepath.Join(packs[pack].Dir, packs[pack].Files[0]))
		})
	}
	if ctx.Err() != nil {
		return errStoppedUnpacking
	}
	if err != nil {
		return fmt.Errorf("upload %s: node %s: %w", u.id, in.node, err)
	}
	return nil
}

var errStoppedUnpacking = errors.New("stopped while its upload was being unpacked")

// WriteUpload moves the files of an upload into a task directory.
func (d *Data) WriteUpload(dir string) error {
	if d == nil || d.upload == nil {
		return nil
	}
	if err := os.Rename(d.upload.at, filepath.Join(dir, UploadDir)); err != nil {
		return fmt.Errorf("move the upload into the task directory: %w", err)
	}
	return nil
}
