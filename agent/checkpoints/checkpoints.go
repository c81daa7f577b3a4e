// Package checkpoints carries out the orders of the coordinators about checkpoints of this node: it puts checkpoints
// into the archive, and removes them from the node and from the archive.
//
// Contract: Take takes the orders of a session, each time that they arrive. Run carries them out, and reports to the
// outbox.
//
// Guarantees: only the registered files are uploaded: their manifest is compared before and after they are read. A
// checkpoint is reported as stored only when all of it is in the archive. An upload that is interrupted, also by the
// death of the agent, continues where it stopped; an upload whose order is withdrawn is stopped, and its objects are
// removed. Files are removed only from directories that agents made for the job, if they are the registered ones; no
// link is followed.
//
// Not guaranteed: that reports outlive the agent. An order stays until its report has arrived; the next agent finds
// finished work and reports it again.
package checkpoints

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/archive"
)

const (
	// workers is how many orders are carried out at a time. An upload sends several parts at a time.
	workers = 2
	// retryFirst and retryLongest limit the pauses after an error; hopelessPause is the pause after an error that
	// another try will hardly fix.
	retryFirst    = time.Second
	retryLongest  = 5 * time.Minute
	hopelessPause = time.Hour
	// progressEvery is how often the progress of an upload is reported.
	progressEvery = 5 * time.Second
)

// Outbox takes reports.
type Outbox interface {
	Add(reports ...*outbox.Report)
}

// Config configures a Keeper.
type Config struct {
	// Store is the archive; nil: none.
	Store archive.Store
	// DataDir is the agent's data directory.
	DataDir string
	// Private are directories from which only outputs of the tenant's jobs are uploaded or served.
	Private *private.Paths
	Outputs *outputs.Dirs
	// As runs a function with the rights on files of the user as which the jobs of a tenant run; nil: they run as the agent.
	As     func(tenant string, f func()) error
	Outbox Outbox
	// Rate limits the uploads in bytes per second; 0: no limit.
	Rate    int64
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Keeper carries out orders.
type Keeper struct {
	cfg     Config
	rate    archive.Rate
	metrics *metrics
	journal journal

	mu    sync.Mutex
	news  []*v1.CheckpointOrder // the newest orders, until Run has taken them
	fresh bool                  // there are newer ones
	acks  []*work               // whose report the coordinators have
	wake  chan struct{}

	// The fields below belong to Run.
	known   map[string]*work // by checkpoint
	ordered bool             // orders have come
	busy    int
	results chan result
}

// work is the pending work for one checkpoint.
type work struct {
	id string
	// order is the current order; nil: it was withdrawn.
	order *v1.CheckpointOrder
	rank  int // among the orders
	// cancel stops the action in progress; nil: none is.
	cancel context.CancelFunc
	// reported: the order was carried out; acked: the coordinators have the report.
	reported, acked bool
	// told: the beginning of the upload was reported. Another try is not another beginning.
	told bool
	// begun is the archive key of an upload that was begun and not completed; empty: there is none.
	begun string

	pauses    wait.Backoff
	notBefore time.Time
}

// result is the result of one try to carry out an order.
type result struct {
	work  *work
	order *v1.CheckpointOrder // nil: the objects of a withdrawn upload were removed
	// report is the report to the coordinators, or nil.
	report *v1.Report
	// over: nothing is left to do; otherwise the order is tried again.
	over     bool
	hopeless bool
	err      error
}

// New returns a Keeper that has not started.
func New(cfg Config) *Keeper {
	k := &Keeper{
		cfg: cfg, rate: archive.Rate{PerSecond: cfg.Rate}, journal: journal{path: filepath.Join(cfg.DataDir, journalFile)},
		wake: make(chan struct{}, 1), known: make(map[string]*work), results: make(chan result),
	}
	k.metrics = newMetrics(cfg.Metrics)
	for id, key := range k.journal.read(cfg.Log) {
		k.known[id] = newWork(id)
		k.known[id].begun = key
	}
	return k
}

func newWork(id string) *work {
	return &work{id: id, pauses: wait.Backoff{First: retryFirst, Longest: retryLongest}}
}

// Take takes the orders of a session. It does not block.
func (k *Keeper) Take(orders []*v1.CheckpointOrder) {
	k.mu.Lock()
	k.news, k.fresh = orders, true
	k.mu.Unlock()
	k.poke()
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run carries out orders until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		k.mu.Lock()
		news, fresh, acks := k.news, k.fresh, k.acks
		k.fresh, k.acks = false, nil
		k.mu.Unlock()
		for _, w := range acks {
			w.acked = w.reported
		}
		if fresh {
			k.reconcile(news, time.Now())
		}
		next := k.begin(ctx, &group, time.Now())
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-k.wake:
		case r := <-k.results:
			k.settle(r, time.Now())
		}
		timer.Stop()
	}
}

// named matches the ids of checkpoints.
var named = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// reconcile compares the orders with the known work.
func (k *Keeper) reconcile(orders []*v1.CheckpointOrder, now time.Time) {
	k.ordered = true
	wanted := make(map[string]bool, len(orders))
	for rank, order := range orders {
		id := order.GetCheckpointId()
		if !named.MatchString(id) {
			k.cfg.Log.Error("an order names a checkpoint in a strange way, and is ignored", "checkpoint", id)
			continue
		}
		wanted[id] = true
		w := k.known[id]
		if w == nil {
			w = newWork(id)
			k.known[id] = w
		}
		w.rank = rank
		switch {
		case !same(w.order, order):
			if w.cancel != nil {
				w.cancel()
			}
			w.reported, w.acked, w.told, w.notBefore = false, false, false, time.Time{}
			w.pauses.Reset()
		case w.reported && w.acked:
			// The coordinators have the report, and still order it: do it again.
			w.reported, w.acked, w.notBefore = false, false, now.Add(w.pauses.Next())
		}
		w.order = order
	}
	for id, w := range k.known {
		if !wanted[id] {
			w.order, w.notBefore = nil, time.Time{}
			if w.cancel != nil {
				w.cancel()
			}
		}
	}
}

func same(a, b *v1.CheckpointOrder) bool {
	return a.GetAction() == b.GetAction() && a.GetArchiveKey() == b.GetArchiveKey() && a.GetPath() == b.GetPath() && a.GetManifestDigest() == b.GetManifestDigest()
}

// begin starts the work that is due, the most urgent first, and returns the time until more is due.
func (k *Keeper) begin(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Duration {
	uploads := 0
	for _, w := range k.known {
		if w.order.GetAction() == v1.CheckpointAction_UPLOAD && !w.reported {
			uploads++
		}
	}
	k.metrics.waiting.Set(float64(uploads))
	for k.busy < workers {
		w := k.next(now)
		if w == nil {
			break
		}
		order, begun := w.order, w.begun
		if order.GetAction() == v1.CheckpointAction_UPLOAD && k.cfg.Store != nil && begun != order.GetArchiveKey() {
			// From here on the next agent knows about the objects of the upload.
			if err := k.journal.begin(w.id, order.GetArchiveKey()); err != nil {
				k.cfg.Log.Error("cannot record that an upload begins", "checkpoint", w.id, "error", err)
				w.notBefore = now.Add(w.pauses.Next())
				continue
			}
			w.begun = order.GetArchiveKey()
		}
		if order.GetAction() == v1.CheckpointAction_UPLOAD && k.cfg.Store != nil && !w.told {
			// Retention keeps checkpoints that are being uploaded: a job may save many more before there is progress to
			// report.
			k.uploads(order, 0)
			w.told = true
		}
		working, cancel := context.WithCancel(ctx)
		w.cancel = cancel
		k.busy++
		group.Go(func() {
			defer cancel()
			r := k.do(working, order, begun)
			r.work, r.order = w, order
			select {
			case k.results <- r:
			case <-ctx.Done():
			}
		})
	}
	soon := time.Hour
	for _, w := range k.known {
		if k.waits(w) && w.notBefore.After(now) {
			soon = min(soon, w.notBefore.Sub(now))
		}
	}
	return soon
}

// waits reports whether work on a checkpoint is pending and not in progress.
func (k *Keeper) waits(w *work) bool {
	switch {
	case w.cancel != nil || w.reported || !k.ordered:
		return false
	case w.order == nil:
		return w.begun != ""
	}
	return true
}

// next returns the most urgent work that is due. It forgets finished work.
func (k *Keeper) next(now time.Time) (first *work) {
	for id, w := range k.known {
		switch {
		case k.ordered && w.order == nil && w.cancel == nil && w.begun == "":
			delete(k.known, id)
		case !k.waits(w) || w.notBefore.After(now):
		case first == nil || w.urgency() < first.urgency():
			first = w
		}
	}
	return first
}

// urgency returns the rank of the order. Objects of withdrawn uploads are removed last.
func (w *work) urgency() int {
	if w.order == nil {
		return 1 << 30
	}
	return w.rank
}

// settle records the result of a try.
func (k *Keeper) settle(r result, now time.Time) {
	w := r.work
	w.cancel = nil
	k.busy--
	log := k.cfg.Log.With("checkpoint", w.id, "job", r.order.GetJobId(), "action", r.order.GetAction().String())
	stored := r.over && r.report.GetCheckpointStored() != nil
	emptied := r.over && r.err == nil && (r.order == nil || r.order.GetAction() == v1.CheckpointAction_REMOVE_ARCHIVED)
	wanted := r.order != nil && w.order != nil && same(w.order, r.order)
	if w.begun != "" && (emptied || stored && wanted) {
		// A stored checkpoint belongs to the coordinators before they learn about it: the next agent must not remove
		// it.
		if err := k.journal.end(w.id); err != nil {
			log.Error("cannot record that an upload has ended", "error", err)
			w.notBefore = now.Add(w.pauses.Next())
			return
		}
		w.begun = ""
	}
	switch {
	case !wanted:
		if r.order == nil && r.err != nil && !errors.Is(r.err, context.Canceled) {
			log.Warn("cannot remove from the archive what is not wanted any more", "error", r.err)
			w.notBefore = now.Add(w.pauses.Next())
		}
		return // a newer order is carried out next
	case r.err != nil && !errors.Is(r.err, context.Canceled):
		k.metrics.failures.Inc()
		log.Warn("an order for a checkpoint was not carried out", "error", r.err, "again", !r.over)
	}
	w.notBefore = now.Add(w.pauses.Next())
	if r.hopeless {
		w.notBefore = now.Add(hopelessPause)
	}
	w.reported = r.over
	if r.report == nil {
		return
	}
	report := outbox.About(taskid.ID{Job: r.order.GetJobId()}, r.report, time.Time{})
	report.Latest = seriesOf(w.id)
	if r.over {
		report.Acked = func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.acks = append(k.acks, w) // Run takes it before the next orders
		}
	}
	k.cfg.Outbox.Add(report)
}

func seriesOf(id string) string { return "checkpoint " + id }
