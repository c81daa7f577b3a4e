package fsm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/go-memdb"
	"github.com/stretchr/testify/require"
)

// BenchmarkStore compares what the state could be built on, for the same work: 100,000 jobs with two further indices
// (by tenant; by class, priority and age), taken in 64 at a time, each batch published to readers; and then each of
// them changed once. docs/decisions/0001-copy-on-write-btrees.md has the outcome.
func BenchmarkStore(b *testing.B) {
	const jobs, batch = 100_000, 64
	rows := make([]*Job, jobs)
	for i := range rows {
		rows[i] = &Job{
			ID: JobID(i+1) << idPositionBits, Tenant: fmt.Sprint("tenant", i%50), Queue: DefaultQueue,
			Priority: uint8(i % 11), Shape: Shape{Nodes: 1, GPUs: 1},
		}
	}
	changed := make([]*Job, jobs)
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
	measure := func(b *testing.B, open func() (put func(old, j *Job), publish func() any)) {
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
		measure(b, func() (func(old, j *Job), func() any) {
			s := newState()
			s.work.queueOf(DefaultQueue)
			put := func(old, j *Job) {
				t := &s.jobs
				t.rows.index.put(record[JobID, *Job]{key: j.ID, row: j})
				if old == nil {
					s.regroup(&noJob, j)
				} else {
					t.waiting.delete(waitingJob{place: waitingPlace(1, old.Priority), id: old.ID})
				}
				t.waiting.put(waitingJob{waitingPlace(1, j.Priority), j.ID, j})
			}
			return put, func() any { f := s.freeze(); return &f }
		})
	})
	b.Run("memdb", func(b *testing.B) {
		measure(b, func() (func(old, j *Job), func() any) {
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
			put := func(_, j *Job) {
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
	m := New()
	m.Apply(1, submitEntries(b, 1, 1)[0].Data)
	j, _ := m.View().Job(1 << idPositionBits)
	b.Run("fields", func(b *testing.B) {
		for b.Loop() {
			m.st.jobs.rows.hashOf(j)
		}
	})
	b.Run("cbor", func(b *testing.B) {
		for b.Loop() {
			raw, err := encMode.Marshal(j)
			if err != nil {
				b.Fatal(err)
			}
			xxhash.Sum64(raw)
		}
	})
}
