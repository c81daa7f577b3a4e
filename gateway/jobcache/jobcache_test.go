package jobcache

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const longstop = time.Minute

func encode(b []byte, m proto.Message) []byte {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return append(b, text...)
}

func open(t *testing.T, database string, logs io.Writer) *Cache {
	c, err := Open(Config{
		Database: database, Encode: encode, Logger: slog.New(slog.NewTextHandler(logs, nil)), Registry: prometheus.NewRegistry(),
		WriteTimeout: longstop,
	})
	require.NoError(t, err)
	return c
}

// finish writes the queued jobs.
func (c *Cache) finish(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), longstop)
	defer cancel()
	c.Close(ctx)
}

// rows returns the number of jobs with an outcome according to the metrics.
func (c *Cache) rows(outcome string) float64 {
	return c.metric("mind_gateway_job_cache_rows_total", outcome)
}

func (c *Cache) failing() float64 { return c.metric("mind_gateway_job_cache_failing", "") }

func (c *Cache) metric(name, label string) float64 {
	families, err := c.config.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	panic("there is no metric " + name)
}

func job(id string, revision uint64, change func(*v1.Job)) *v1.Job {
	at := timestamppb.New(time.Date(2026, 1, 31, 8, 0, 0, 250_000_000, time.UTC))
	j := &v1.Job{
		JobId: id, TenantId: "acme", Name: `Robert'); DROP TABLE mod_scaimind_jobs; -- "ü"`, Status: v1.JobStatus_TRAINING, Priority: 7, Revision: revision,
		CreatedAt: at, UpdatedAt: at,
		TrainingConfig:   &v1.TrainingConfig{Hyperparameters: map[string]string{"lr": "0.1"}, Environment: map[string]string{"HF_TOKEN": "hunter2"}},
		ResourceConfig:   &v1.ResourceConfig{GpuCount: 8},
		SchedulingConfig: &v1.SchedulingConfig{Queue: "fast"},
	}
	if change != nil {
		change(j)
	}
	return j
}

// databases returns functions that make a database of each kind, and return its name and a handle.
func databases(t *testing.T) map[string]func(*testing.T) (string, *sql.DB) {
	return map[string]func(*testing.T) (string, *sql.DB){
		"sqlite": func(t *testing.T) (string, *sql.DB) {
			path := filepath.Join(t.TempDir(), "sub dir", "jobs ? #%20.db")
			d, err := dialectOf(Config{Database: path})
			require.NoError(t, err)
			db, err := d.open()
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			return path, db
		},
		"mariadb": startMariaDB,
	}
}

func TestCache_keepsWhatWasListed(t *testing.T) {
	for kind, database := range databases(t) {
		t.Run(kind, func(t *testing.T) {
			name, db := database(t)
			c := open(t, name, t.Output())
			c.Note([]*v1.Job{job("job_1", 5, nil), job("job_2", 6, func(j *v1.Job) {
				j.Status, j.ErrorType, j.ErrorMessage = v1.JobStatus_FAILED, v1.ErrorType_OOM, "out of memory"
				j.StartedAt, j.FinishedAt = j.CreatedAt, j.CreatedAt
			})}, 1000)
			c.Note([]*v1.Job{job("job_1", 5, nil)}, 500)
			c.finish(t)
			require.EqualValues(t, 2, c.rows("written"))
			require.EqualValues(t, 1, c.rows("unchanged"))

			one := read(t, db, "job_1")
			require.Equal(t, "acme", one["tenant_id"])
			require.Equal(t, job("", 0, nil).Name, one["name"])
			require.Equal(t, "TRAINING", one["status"])
			require.Equal(t, "7", one["priority"])
			require.Equal(t, "5", one["revision"])
			require.Equal(t, "2026-01-31 08:00:00.250000", one["created_at"])
			require.JSONEq(t, `{"hyperparameters":{"lr":"0.1"}}`, one["training_config"], "without its environment")
			var resources map[string]any
			require.NoError(t, json.Unmarshal([]byte(one["resource_config"]), &resources))
			require.EqualValues(t, 8, resources["gpu_count"])
			for _, column := range []string{"data_config", "output_config", "error_type", "error_message", "started_at", "finished_at"} {
				require.Equal(t, "NULL", one[column], column)
			}
			two := read(t, db, "job_2")
			require.Equal(t, "OOM", two["error_type"])
			require.Equal(t, "out of memory", two["error_message"])
			require.Equal(t, "2026-01-31 08:00:00.250000", two["finished_at"])

			// This is another gateway, with an older answer and a newer one.
			c = open(t, name, t.Output())
			c.Note([]*v1.Job{job("job_1", 4, func(j *v1.Job) { j.Status = v1.JobStatus_PENDING })}, 500)
			c.Note([]*v1.Job{job("job_2", 9, func(j *v1.Job) { j.Status = v1.JobStatus_COMPLETED })}, 500)
			c.finish(t)
			require.Equal(t, "TRAINING", read(t, db, "job_1")["status"], "an older state replaces nothing")
			require.Equal(t, "5", read(t, db, "job_1")["revision"])
			two = read(t, db, "job_2")
			require.Equal(t, "COMPLETED", two["status"])
			require.Equal(t, "9", two["revision"])
			require.Equal(t, "NULL", two["error_type"])

			// The cluster was restored from a snapshot: its indexes went back.
			old := stamp(time.Now().Add(-staleAfter - time.Minute))
			_, err := db.ExecContext(t.Context(), "UPDATE mod_scaimind_jobs SET cached_at = ?", old)
			require.NoError(t, err)
			c = open(t, name, t.Output())
			c.Note([]*v1.Job{job("job_1", 3, func(j *v1.Job) { j.Status = v1.JobStatus_PAUSED })}, 500)
			c.finish(t)
			require.Equal(t, "PAUSED", read(t, db, "job_1")["status"])
			require.Equal(t, "3", read(t, db, "job_1")["revision"])

			// job_2 was not listed for a long time.
			_, err = db.ExecContext(t.Context(), "UPDATE mod_scaimind_jobs SET cached_at = ? WHERE job_id = 'job_2'", stamp(time.Now().Add(-31*24*time.Hour)))
			require.NoError(t, err)
			c = open(t, name, t.Output())
			c.Note([]*v1.Job{job("job_1", 3, nil)}, 500)
			c.finish(t)
			require.Nil(t, read(t, db, "job_2"))
			require.NotNil(t, read(t, db, "job_1"))
		})
	}
}

// read returns a row as text; nil: there is none.
func read(t *testing.T, db *sql.DB, id string) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT "+strings.Join(columns, ", ")+" FROM mod_scaimind_jobs WHERE job_id = ?", id)
	require.NoError(t, err)
	defer rows.Close()
	if !rows.Next() {
		require.NoError(t, rows.Err())
		return nil
	}
	cells, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	require.NoError(t, rows.Scan(into...))
	row := map[string]string{}
	for i, c := range cells {
		row[columns[i]] = "NULL"
		if c.Valid {
			row[columns[i]] = c.String
		}
	}
	return row
}

func TestCache_theTableIsMadeAgain(t *testing.T) {
	for kind, database := range databases(t) {
		t.Run(kind, func(t *testing.T) {
			name, db := database(t)
			c := open(t, name, t.Output())
			defer c.finish(t)
			written := func(id string) {
				require.Eventually(t, func() bool {
					c.Note([]*v1.Job{job(id, 1, nil)}, 500)
					// The row is visible before the cache has counted it.
					return c.rows("written") > 0 && exists(db, id) && c.failing() == 0
				}, longstop, 50*time.Millisecond)
			}
			written("job_1")
			_, err := db.ExecContext(t.Context(), "DROP TABLE mod_scaimind_jobs")
			require.NoError(t, err)
			written("job_2")
			require.Positive(t, c.rows("failed"))
		})
	}
}

func exists(db *sql.DB, id string) bool {
	var n int
	return db.QueryRow("SELECT COUNT(*) FROM mod_scaimind_jobs WHERE job_id = ?", id).Scan(&n) == nil && n == 1
}

func TestCache_sqliteIsForItsOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	c := open(t, filepath.Join(dir, "jobs.db"), t.Output())
	defer c.finish(t)
	c.Note([]*v1.Job{job("job_1", 1, nil)}, 500)
	require.Eventually(t, func() bool { return c.rows("written") == 1 }, longstop, 5*time.Millisecond)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 3, "the file, its log and its index")
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
	}
}

// A database that another process has locked costs rows, but nothing else. It is used again when the lock is released.
func TestCache_aLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c := open(t, path, t.Output())
	c.Note([]*v1.Job{job("job_1", 1, nil)}, 500)
	require.Eventually(t, func() bool { return c.rows("written") == 1 }, longstop, 5*time.Millisecond)
	d, err := dialectOf(Config{Database: path})
	require.NoError(t, err)
	db, err := d.open()
	require.NoError(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil) // takes the lock at once
	require.NoError(t, err)
	for i := range 2 * maxBatches {
		c.Note([]*v1.Job{job(fmt.Sprint("job_", i), 2, nil)}, 500)
	}
	require.Positive(t, c.rows("dropped"), "what waits is bounded in number")
	require.Eventually(t, func() bool { return c.failing() == 1 }, longstop, 5*time.Millisecond)
	require.NoError(t, tx.Rollback())
	require.Eventually(t, func() bool {
		c.Note([]*v1.Job{job("job_9999", 2, nil)}, 500)
		return exists(db, "job_9999")
	}, longstop, 20*time.Millisecond)
	c.finish(t)
	require.Zero(t, c.failing())
}

func TestCache_whatWaitsIsBoundedInBytes(t *testing.T) {
	c := open(t, silent(t), io.Discard)
	for range 20 {
		c.Note([]*v1.Job{job("job_1", 1, nil)}, maxQueued/4)
	}
	require.GreaterOrEqual(t, c.rows("dropped"), 15.0)
	require.LessOrEqual(t, c.queued.Load(), int64(maxQueued))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.Close(ended) // nothing delays the end
}

// silent starts a database server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return "mysql:mind:hunter2@tcp(" + listener.Addr().String() + ")/mind"
}

func TestCache_failuresAreToldOnceAndWithoutThePassword(t *testing.T) {
	var logs strings.Builder
	c := open(t, "mysql:mind:hunter2@tcp(127.0.0.1:1)/mind", &logs)
	for range 100 {
		c.Note([]*v1.Job{job("job_1", 1, nil)}, 500)
	}
	c.finish(t)
	require.Positive(t, c.rows("failed"))
	require.EqualValues(t, 100, c.rows("failed")+c.rows("dropped"))
	require.Equal(t, 1, strings.Count(logs.String(), "the job cache cannot be written"), logs.String())
	require.NotContains(t, logs.String(), "hunter2")
}

func TestCheck_refusesWhatCannotWork(t *testing.T) {
	for database, says := range map[string]string{
		"": "path of a file", "mysql:": "no database", "mysql:mind:hunter2@tcp(db:3306": "no DSN", "mysql:mind:hunter2@tcp(db:3306)/": "no database",
	} {
		err := Check(Config{Database: database})
		require.ErrorContains(t, err, says, database)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.ErrorContains(t, Check(Config{Database: "x", Keep: -1}), "job_cache_keep")
	require.NoError(t, Check(Config{Database: "/var/lib/mind/jobs.db"}))
	require.NoError(t, Check(Config{Database: "mysql:mind:hunter2@tcp(db:3306)/mind?tls=true"}))
}
