package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	saved "github.com/mindcoordinator/mind/archive/checkpoints"
)

var errNoArchive = errors.New("this node has no archive of checkpoints: set checkpoint_archive of its agent")

// do carries out an order. Without an order it removes the objects of a withdrawn upload, below the key begun.
func (k *Keeper) do(ctx context.Context, order *v1.CheckpointOrder, begun string) result {
	switch order.GetAction() {
	case v1.CheckpointAction_UPLOAD:
		return k.upload(ctx, order)
	case v1.CheckpointAction_REMOVE_FILES:
		if err := k.removeFiles(ctx, order); err != nil {
			return result{err: err}
		}
		return removed(order)
	case v1.CheckpointAction_REMOVE_ARCHIVED:
		if err := k.empty(ctx, order.GetArchiveKey()); err != nil {
			return result{err: err}
		}
		return removed(order)
	}
	if order != nil {
		return result{err: fmt.Errorf("this agent does not know the action %s: it is too old", order.GetAction()), hopeless: true}
	}
	err := k.empty(ctx, begun)
	return result{err: err, over: err == nil}
}

func removed(order *v1.CheckpointOrder) result {
	return result{over: true, report: &v1.Report{Body: &v1.Report_CheckpointRemoved{CheckpointRemoved: &v1.CheckpointRemoved{
		CheckpointId: order.GetCheckpointId(), Action: order.GetAction(),
	}}}}
}

// empty removes everything below a key.
func (k *Keeper) empty(ctx context.Context, key string) error {
	if k.cfg.Store == nil {
		return errNoArchive
	}
	return saved.Remove(ctx, k.cfg.Store, key)
}

func (k *Keeper) upload(ctx context.Context, order *v1.CheckpointOrder) result {
	if k.cfg.Store == nil {
		return failed(order, errNoArchive, false)
	}
	began := time.Now()
	told := &progress{keeper: k, order: order, last: began}
	s, err := k.save(ctx, order, told.tell)
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		return result{err: err}
	default:
		return failed(order, err, errors.Is(err, saved.ErrChanged) || errors.Is(err, fs.ErrNotExist) && missing(order.GetPath()))
	}
	k.metrics.seconds.Observe(time.Since(began).Seconds())
	k.cfg.Log.Info("a checkpoint is in the archive", "checkpoint", order.GetCheckpointId(), "job", order.GetJobId(), "bytes", s.Size(), "took", time.Since(began).Round(time.Millisecond))
	return result{over: true, report: &v1.Report{Body: &v1.Report_CheckpointStored{CheckpointStored: &v1.CheckpointStored{
		CheckpointId: order.GetCheckpointId(), ArchiveKey: order.GetArchiveKey(), ContentDigest: s.Digest(), StoredBytes: s.Stored(),
	}}}}
}

// failed reports an upload that cannot continue; gone: the files to upload do not exist any more.
func failed(order *v1.CheckpointOrder, err error, gone bool) result {
	return result{err: err, over: gone, hopeless: errors.As(err, new(refusal)) || errors.Is(err, errNoArchive), report: &v1.Report{Body: &v1.Report_CheckpointUpload{CheckpointUpload: &v1.CheckpointUpload{
		CheckpointId: order.GetCheckpointId(), Error: err.Error(), Gone: gone,
	}}}}
}

// save puts the files of a checkpoint into the archive.
func (k *Keeper) save(ctx context.Context, order *v1.CheckpointOrder, tell func(done int64)) (*saved.Saved, error) {
	from := &files{keeper: k, order: order}
	defer from.close()
	return saved.Save(ctx, k.cfg.Store, order.GetArchiveKey(), saved.Source{
		Registered: order.GetManifestDigest(), List: from.list, Open: from.open, Progress: tell,
		Wait: func(ctx context.Context, bytes int) error {
			k.metrics.bytes.Add(float64(bytes))
			return k.rate.Wait(ctx, bytes)
		},
	})
}

// progress reports how far an upload is.
type progress struct {
	keeper *Keeper
	order  *v1.CheckpointOrder

	mu   sync.Mutex
	last time.Time
}

func (p *progress) tell(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	p.keeper.uploads(p.order, done)
}

// uploads reports an upload in progress.
func (k *Keeper) uploads(order *v1.CheckpointOrder, done int64) {
	report := outbox.About(taskid.ID{Job: order.GetJobId()}, &v1.Report{Body: &v1.Report_CheckpointUpload{CheckpointUpload: &v1.CheckpointUpload{
		CheckpointId: order.GetCheckpointId(), DoneBytes: done,
	}}}, time.Time{})
	report.Latest = seriesOf(order.GetCheckpointId())
	k.cfg.Outbox.Add(report)
}
