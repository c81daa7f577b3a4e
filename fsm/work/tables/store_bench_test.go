package tables

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/go-memdb"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// place is that of a job among those of its class.
type place struct {
	priority uint8
	job      *work.Job
}

// BenchmarkStore compares what the state could be built on, for the same work: 100,000 jobs with two further indices
// (by tenant; by class, priority and age), taken in 64 at a time, each batch published to readers; and then each of
// them changed once. docs/decisions/0001-copy-on-write-btrees.md has the outcome.
func BenchmarkStore(b *testing.B) {
	const jobs, batch = 100_000, 64
	rows := make([]*work.Job, jobs)
	for i := range rows {
		rows[i] = &work.Job{
			ID: ident.Job(i+1) << kernel.IDPositionBits, Tenant: fmt.Sprint("tenant", i%50), Queue: work.DefaultQueue,
			Priority: uint8(i % 11), Shape: work.Shape{Nodes: 1, GPUs: 1},
		}
	}
	changed := make([]*work.Job, jobs)
	for i, j := range rows {
		c := *j
		c.Priority = 10 - c.Priority
		changed[i] = &c
	}
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	measure := func(b *testing.B, open func() (put func(old, j *work.Job), publish func() any)) {
		var insert, update, bytes float64
		for b.Loop() {
			before := heap()
			put, publish := open()
			var view any
			run := func(write func(i int)) float64 {
				from := cpu(b)
				for i := range jobs {
					write(i)
					if i%batch == batch-1 {
						view = publish()
					}
				}
				return float64(cpu(b) - from)
			}
			insert += run(func(i int) { put(nil, rows[i]) })
			bytes += float64(heap() - before)
			update += run(func(i int) { put(rows[i], changed[i]) })
			runtime.KeepAlive(view)
		}
		n := float64(b.N) * jobs
		b.ReportMetric(insert/n, "cpu-ns/insert")
		b.ReportMetric(update/n, "cpu-ns/update")
		b.ReportMetric(bytes/n, "B/job")
	}
	b.Run("btree", func(b *testing.B) {
		measure(b, func() (func(old, j *work.Job), func() any) {
			s := newTables()
			waiting := kernel.NewIndex(func(a, b place) bool {
				return a.priority > b.priority || a.priority == b.priority && a.job.ID.Older(b.job.ID)
			})
			put := func(old, j *work.Job) {
				s.jobs.rows.Put(j.ID, j)
				if old == nil {
					s.regroup(&noJob, j)
				} else {
					waiting.Delete(place{old.Priority, old})
				}
				waiting.Put(place{j.Priority, j})
			}
			return put, func() any { return []any{s.Freeze(s.kernel), waiting.Freeze()} }
		})
	})
	b.Run("memdb", func(b *testing.B) {
		measure(b, func() (func(old, j *work.Job), func() any) {
			db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{"jobs": {
				Name: "jobs",
				Indexes: map[string]*memdb.IndexSchema{
					"id": {Name: "id", Unique: true, Indexer: &memdb.UintFieldIndex{Field: "ID"}},
					"tenant": {Name: "tenant", Unique: true, Indexer: &memdb.CompoundIndex{Indexes: []memdb.Indexer{
						&memdb.StringFieldIndex{Field: "Tenant"}, &memdb.UintFieldIndex{Field: "ID"},
					}}},
					"waiting": {Name: "waiting", Unique: true, Indexer: &memdb.CompoundIndex{Indexes: []memdb.Indexer{
						&memdb.StringFieldIndex{Field: "Queue"}, &memdb.UintFieldIndex{Field: "Priority"}, &memdb.UintFieldIndex{Field: "ID"},
					}}},
				},
			}}})
			require.NoError(b, err)
			txn := db.Txn(true)
			put := func(_, j *work.Job) {
				if err := txn.Insert("jobs", j); err != nil {
					b.Fatal(err)
				}
			}
			return put, func() any {
				txn.Commit()
				txn = db.Txn(true)
				return db.Txn(false)
			}
		})
	})
}

// BenchmarkRowHash compares the two ways to take the hash of a row: of the fields as written by hand, and of its CBOR.
func BenchmarkRowHash(b *testing.B) {
	j := &work.Job{ID: 1, Tenant: "acme", User: "ada", Name: "train", Queue: work.DefaultQueue, Priority: 5, Spec: make([]byte, 200), Shape: work.Shape{Nodes: 1, GPUs: 1}}
	b.Run("fields", func(b *testing.B) {
		var f kernel.Fields
		for b.Loop() {
			f = j.AppendFields(f[:0].Num(recordJob))
			xxhash.Sum64(f)
		}
	})
	b.Run("cbor", func(b *testing.B) {
		for b.Loop() {
			raw, err := cbor.Marshal(j)
			if err != nil {
				b.Fatal(err)
			}
			xxhash.Sum64(raw)
		}
	})
}

// newTables are empty ones.
func newTables() *State {
	var s *State
	kernel.New(kernel.Config[kernel.View, int]{
		Registry: kernel.Register(kernel.Domain{
			Name: "work", Meta: &kernel.MetaDef{New: func() kernel.MetaRow { return &work.Meta{} }}, Records: Records(),
			Open: func(of *kernel.State) kernel.Part {
				p := Open(of)
				s = p.(*State)
				return p
			},
		}),
		View: func(v *kernel.View) *kernel.View { return v },
	})
	return s
}

func cpu(b testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
