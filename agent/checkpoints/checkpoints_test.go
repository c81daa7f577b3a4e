package checkpoints

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/safedir"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	saved "github.com/mindcoordinator/mind/archive/checkpoints"
)

// site is a node and an archive.
type site struct {
	t       *testing.T
	data    string
	archive *store
	outputs *outputs.Dirs
	keeper  *Keeper
	metrics *prometheus.Registry

	mu   sync.Mutex
	sent []*outbox.Report
	// begun are the ids of uploads whose beginning was reported.
	begun []string
}

// store is an archive that can fail, and hang.
type store struct {
	archive.Store
	dir string

	mu    sync.Mutex
	fails error
	hang  bool
}

func (s *store) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	s.mu.Lock()
	fails, hang := s.fails, s.hang
	s.mu.Unlock()
	// Only the manifest hangs.
	if hang && strings.HasSuffix(key, ".json") {
		<-ctx.Done()
		return ctx.Err()
	}
	if fails != nil {
		return fails
	}
	return s.Store.Put(ctx, key, body, size)
}

func (s *store) set(fails error, hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.hang = fails, hang
}

// objects returns the number of objects.
func (s *store) objects(t *testing.T) int {
	t.Helper()
	objects, err := s.List(t.Context(), "")
	require.NoError(t, err)
	return len(objects)
}

func newSite(t *testing.T) *site {
	dir := t.TempDir()
	inner, err := archive.Open("file://"+dir, archive.Access{})
	require.NoError(t, err)
	s := &site{t: t, data: t.TempDir(), archive: &store{Store: inner, dir: dir}}
	s.outputs = outputs.New(s.data)
	return s
}

// Add implements Outbox.
func (s *site) Add(reports ...*outbox.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reports {
		if u := r.Body.GetCheckpointUpload(); u != nil && u.GetDoneBytes() == 0 && u.GetError() == "" && !u.GetGone() {
			s.begun = append(s.begun, u.GetCheckpointId())
			continue
		}
		s.sent = append(s.sent, r)
	}
}

// take returns the reports so far.
func (s *site) take() []*outbox.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// start runs an agent's Keeper until the returned function is called.
func (s *site) start() (stop func()) {
	s.metrics = prometheus.NewRegistry()
	s.keeper = New(Config{Store: s.archive, DataDir: s.data, Private: private.New(s.data), Outputs: s.outputs, Outbox: s, Log: slog.New(slog.DiscardHandler), Metrics: s.metrics})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.keeper.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// orders passes orders to the Keeper, and returns the reports when nothing more happens without time passing.
func (s *site) orders(orders ...*v1.CheckpointOrder) []*outbox.Report {
	s.keeper.Take(orders)
	synctest.Wait()
	return s.take()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// checkpoint makes a checkpoint of two files and a link.
func (s *site) checkpoint(path string) string {
	write(s.t, filepath.Join(path, "weights"), "of "+path)
	write(s.t, filepath.Join(path, "rank/0"), "optimizer")
	require.NoError(s.t, os.Symlink("rank", filepath.Join(path, "latest")))
	return path
}

// own returns the checkpoint directory of a job on the node.
func (s *site) own(job string) string {
	return filepath.Join(s.outputs.Tenant("acme"), job+".checkpoints")
}

func digest(t *testing.T, path string) string {
	t.Helper()
	dir, err := safedir.Open(path)
	require.NoError(t, err)
	defer dir.Close()
	d, err := observe.Digest(t.Context(), dir)
	require.NoError(t, err)
	return d
}

func (s *site) order(action v1.CheckpointAction_Value, id, path string) *v1.CheckpointOrder {
	o := &v1.CheckpointOrder{CheckpointId: id, Action: action, TenantId: "acme", JobId: "job_1", Path: path, ArchiveKey: "checkpoints/acme/" + id}
	if _, err := os.Stat(path); err == nil {
		o.ManifestDigest = digest(s.t, path)
	}
	return o
}

const (
	upload = v1.CheckpointAction_UPLOAD
	remove = v1.CheckpointAction_REMOVE_FILES
	forget = v1.CheckpointAction_REMOVE_ARCHIVED
)

func TestUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		path := s.checkpoint(s.own("job_1") + "/checkpoint-1")
		order := s.order(upload, "ckpt_1", path)
		reports := s.orders(order)
		require.Len(t, reports, 1)
		require.Equal(t, "job_1", reports[0].Body.GetTask().GetJobId())
		told := reports[0].Body.GetCheckpointStored()
		require.Equal(t, "checkpoints/acme/ckpt_1", told.GetArchiveKey())
		c, err := saved.Open(t.Context(), s.archive, told.GetArchiveKey())
		require.NoError(t, err)
		require.Equal(t, c.Digest(), told.GetContentDigest())
		objects, err := s.archive.List(t.Context(), "")
		require.NoError(t, err)
		var size int64
		for _, o := range objects {
			size += o.Size
		}
		require.Equal(t, size, told.GetStoredBytes())
		var text bytes.Buffer
		require.NoError(t, c.Tar(t.Context(), &text, time.Time{}))
		require.Contains(t, text.String(), "of "+path)
		require.Zero(t, value(t, s.keeper.metrics.waiting).GetGauge().GetValue(), "nothing waits")
		require.NotZero(t, value(t, s.keeper.metrics.bytes).GetCounter().GetValue())

		// The same orders arrive again, as in a new session, while the report is in flight: nothing is done twice.
		require.Empty(t, s.orders(order))
		// The report has arrived, but the order stays: the upload is done again.
		reports[0].Acked()
		require.Empty(t, s.orders(order))
		time.Sleep(2 * retryFirst)
		require.Len(t, s.orders(order), 1)
		// A stored checkpoint belongs to the coordinators: it stays when the order is withdrawn.
		require.Empty(t, s.orders())
		require.Equal(t, len(objects), s.archive.objects(t))
		require.DirExists(t, path)
	})
}

// The agent dies when the archive has all of a checkpoint, but before the report. The next agent reports it, also if
// the files were removed meanwhile.
func TestUpload_whoseReportWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		stop := s.start()
		path := s.checkpoint(s.own("job_1") + "/checkpoint-1")
		order := s.order(upload, "ckpt_1", path)
		first := s.orders(order)
		stop()
		require.NoError(t, os.RemoveAll(path))
		defer s.start()()
		again := s.orders(order)
		require.Len(t, again, 1)
		require.Equal(t, first[0].Body.GetCheckpointStored().GetContentDigest(), again[0].Body.GetCheckpointStored().GetContentDigest())
		require.Empty(t, s.orders())
		require.NotZero(t, s.archive.objects(t))
	})
}

// A withdrawn upload leaves no objects, also if the agent that began it is dead.
func TestUpload_thatIsWithdrawn(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			stop := s.start()
			s.archive.set(nil, true)
			order := s.order(upload, "ckpt_1", s.checkpoint(s.own("job_1")+"/checkpoint-1"))
			other := s.order(upload, "ckpt_2", s.checkpoint(s.own("job_1")+"/checkpoint-2"))
			require.Empty(t, s.orders(order, other))
			require.NotZero(t, s.archive.objects(t))
			if dies {
				stop()
				stop = s.start()
				synctest.Wait()
				require.NotZero(t, s.archive.objects(t), "without orders nothing is known to be unwanted")
			}
			s.archive.set(nil, false)
			reports := s.orders(other)
			defer stop()
			if !dies { // the upload hangs until its connection ends
				require.Empty(t, reports)
				require.Empty(t, s.orders())
				require.Zero(t, s.archive.objects(t))
				return
			}
			require.Len(t, reports, 1)
			require.Equal(t, "ckpt_2", reports[0].Body.GetCheckpointStored().GetCheckpointId())
			for _, o := range must(s.archive.List(t.Context(), "")) {
				require.Contains(t, o.Key, "ckpt_2")
			}
			entries, err := os.ReadDir(filepath.Join(s.archive.dir, "checkpoints/acme"))
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

// value reads a metric.
func value(t *testing.T, m prometheus.Metric) *dto.Metric {
	t.Helper()
	var out dto.Metric
	require.NoError(t, m.Write(&out))
	return &out
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An upload to an archive that fails is tried again with growing pauses, and users see the reason.
func TestUpload_isTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		s.archive.set(errors.New("the store is on fire"), false)
		order := s.order(upload, "ckpt_1", s.checkpoint(s.own("job_1")+"/checkpoint-1"))
		reports := s.orders(order)
		require.Len(t, reports, 1)
		require.Contains(t, reports[0].Body.GetCheckpointUpload().GetError(), "on fire")
		require.False(t, reports[0].Body.GetCheckpointUpload().GetGone())
		time.Sleep(time.Hour)
		synctest.Wait()
		tries := len(s.take())
		require.Greater(t, tries, 8)
		require.Less(t, tries, 30)
		require.Equal(t, float64(tries+1), value(t, s.keeper.metrics.failures).GetCounter().GetValue())
		s.archive.set(nil, false)
		time.Sleep(retryLongest)
		synctest.Wait()
		reports = s.take()
		require.NotNil(t, reports[len(reports)-1].Body.GetCheckpointStored())
	})
}

// The beginning of an upload is reported at once, and once: retention removes checkpoints whose upload has not begun.
func TestUpload_isReportedWhenItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		s.archive.set(nil, true)
		var orders []*v1.CheckpointOrder
		for _, id := range []string{"ckpt_3", "ckpt_2", "ckpt_1"} {
			orders = append(orders, s.order(upload, id, s.checkpoint(s.own("job_1")+"/"+id)))
		}
		require.Empty(t, s.orders(orders...))
		require.Equal(t, []string{"ckpt_3", "ckpt_2"}, s.begun, "as many as are carried out at a time")
		s.orders()
		s.archive.set(errors.New("the store is on fire"), false)
		s.begun = nil
		s.orders(orders[0])
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"ckpt_3"}, s.begun, "another try is no other beginning")
	})
}

// An upload ends for good if the files are not the registered ones; it is tried again if they may come back.
func TestUpload_ofWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		where := t.TempDir()
		for name, tt := range map[string]struct {
			path string
			make func(path string)
			gone bool
			says string
		}{
			"changed":          {path: where + "/changed", make: func(path string) { write(t, path+"/more", "x") }, gone: true, says: "changed"},
			"removed":          {path: where + "/removed", make: func(path string) { require.NoError(t, os.RemoveAll(path)) }, gone: true, says: "no such file"},
			"not mounted":      {path: where + "/mnt/one", make: func(string) { require.NoError(t, os.RemoveAll(where+"/mnt")) }, says: "no such file"},
			"a link out":       {path: where + "/out", make: func(path string) { require.NoError(t, os.Symlink("/etc/hostname", path+"/a")) }, says: "leads out"},
			"the agent's own":  {path: s.data + "/secret", make: func(string) {}, says: "directory of the agent or of another tenant"},
			"another tenant's": {path: filepath.Join(s.data, "outputs", "beta", "job_2.checkpoints", "c1"), make: func(string) {}, says: "directory of the agent or of another tenant"},
		} {
			s.checkpoint(tt.path)
			if name == "a link out" {
				tt.make(tt.path)
			}
			order := s.order(upload, "ckpt_1", tt.path)
			if name != "a link out" {
				tt.make(tt.path)
			}
			reports := s.orders(order)
			require.Len(t, reports, 1, name)
			told := reports[0].Body.GetCheckpointUpload()
			require.Equal(t, tt.gone, told.GetGone(), name)
			require.Contains(t, told.GetError(), tt.says, name)
			require.Empty(t, s.orders())
			require.Zero(t, s.archive.objects(t), name)
		}
	})
}

func TestRemoveArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		path := s.checkpoint(s.own("job_1") + "/checkpoint-1")
		s.orders(s.order(upload, "ckpt_1", path), s.order(upload, "ckpt_2", path))
		reports := s.orders(s.order(forget, "ckpt_1", path))
		require.Len(t, reports, 1)
		require.Equal(t, forget, reports[0].Body.GetCheckpointRemoved().GetAction())
		for _, o := range must(s.archive.List(t.Context(), "")) {
			require.Contains(t, o.Key, "ckpt_2")
		}
		require.Len(t, s.orders(s.order(forget, "ckpt_3", path)), 1, "nothing to remove is no error")
		require.DirExists(t, path)
	})
}

func TestRemoveFiles(t *testing.T) {
	other := func(s *site) string { return s.checkpoint(s.own("job_2") + "/checkpoint-1") }
	for name, tt := range map[string]struct {
		path  func(t *testing.T, s *site) string
		stays bool
	}{
		"a checkpoint": {path: func(_ *testing.T, s *site) string { return s.checkpoint(s.own("job_1") + "/checkpoint-1") }},
		"an output": {path: func(_ *testing.T, s *site) string {
			return s.checkpoint(s.outputs.Tenant("acme") + "/job_1.attempt-3/model/best")
		}},
		"in a directory of the user": {path: func(t *testing.T, s *site) string {
			return s.checkpoint(t.TempDir() + "/job_1/checkpoints/checkpoint-1")
		}},
		"behind a link above": {path: func(t *testing.T, s *site) string {
			where := t.TempDir()
			s.checkpoint(where + "/disk/job_1/attempt-1/checkpoint-1")
			require.NoError(t, os.Symlink("disk", where+"/link"))
			return where + "/link/job_1/attempt-1/checkpoint-1"
		}},
		"of another job": {path: func(_ *testing.T, s *site) string { return other(s) }, stays: true},
		"of the user":    {path: func(t *testing.T, s *site) string { return s.checkpoint(t.TempDir() + "/checkpoint-1") }, stays: true},
		"a whole folder": {path: func(_ *testing.T, s *site) string { return s.checkpoint(s.own("job_1")) }, stays: true},
		"another tenant's": {path: func(_ *testing.T, s *site) string {
			return s.checkpoint(s.outputs.Tenant("other") + "/job_1.checkpoints/c")
		}, stays: true},
		"a link": {path: func(t *testing.T, s *site) string {
			to := other(s)
			require.NoError(t, os.MkdirAll(s.own("job_1"), 0o755))
			require.NoError(t, os.Symlink(to, s.own("job_1")+"/checkpoint-1"))
			return s.own("job_1") + "/checkpoint-1"
		}, stays: true},
		"below a link": {path: func(t *testing.T, s *site) string {
			require.NoError(t, os.MkdirAll(filepath.Dir(s.own("job_1")), 0o755))
			require.NoError(t, os.Symlink(filepath.Dir(other(s)), s.own("job_1")))
			return s.own("job_1") + "/checkpoint-1"
		}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				defer s.start()()
				path := tt.path(t, s)
				order := s.order(remove, "ckpt_1", path)
				reports := s.orders(order)
				require.Len(t, reports, 1)
				require.Equal(t, remove, reports[0].Body.GetCheckpointRemoved().GetAction())
				if tt.stays {
					require.FileExists(t, filepath.Join(path, "weights"))
					return
				}
				require.NoDirExists(t, path)
				left, err := os.ReadDir(filepath.Dir(path))
				require.NoError(t, err)
				require.Empty(t, left)
				require.Len(t, s.orders(), 0)
				require.Len(t, s.orders(order), 1, "again")
			})
		})
	}
}

// Files that are not the registered ones are not removed.
func TestRemoveFiles_thatHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		path := s.checkpoint(s.own("job_1") + "/checkpoint-1")
		order := s.order(remove, "ckpt_1", path)
		write(t, path+"/new", "work of hours")
		require.Len(t, s.orders(order), 1)
		require.FileExists(t, path+"/new")
	})
}

// An agent that was killed during a removal has left files under another name: the next one removes them.
func TestRemoveFiles_goesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.start()()
		path := s.checkpoint(s.own("job_1") + "/checkpoint-1")
		order := s.order(remove, "ckpt_1", path)
		require.NoError(t, os.Rename(path, s.own("job_1")+"/.going-ckpt_1"))
		require.Len(t, s.orders(order), 1)
		left, err := os.ReadDir(s.own("job_1"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
