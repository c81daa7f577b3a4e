package jobcache

import (
	"database/sql"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/devcluster/testrun"
	"github.com/mindcoordinator/mind/gateway/jobcache/mariadb"
)

var server mariadb.Server

func TestMain(m *testing.M) {
	os.Exit(testrun.Main(func() int {
		defer server.Stop()
		return m.Run()
	}))
}

func TestCache_keepsWhatWasListed(t *testing.T) {
	name, db := server.Database(t)
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

	// Another gateway, with an older answer and a newer one.
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

	// Nobody listed job_2 for long.
	_, err = db.ExecContext(t.Context(), "UPDATE mod_scaimind_jobs SET cached_at = ? WHERE job_id = 'job_2'", stamp(time.Now().Add(-31*24*time.Hour)))
	require.NoError(t, err)
	c = open(t, name, t.Output())
	c.Note([]*v1.Job{job("job_1", 3, nil)}, 500)
	c.finish(t)
	require.Nil(t, read(t, db, "job_2"))
	require.NotNil(t, read(t, db, "job_1"))
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
	name, db := server.Database(t)
	c := open(t, name, t.Output())
	defer c.finish(t)
	c.writes(t, db, "job_1")
	_, err := db.ExecContext(t.Context(), "DROP TABLE mod_scaimind_jobs")
	require.NoError(t, err)
	c.writes(t, db, "job_2")
	require.Positive(t, c.rows("failed"))
}

// writes notes a job until it is in the table.
func (c *Cache) writes(t *testing.T, db *sql.DB, id string) {
	require.Eventually(t, func() bool {
		c.Note([]*v1.Job{job(id, 1, nil)}, 500)
		var n int
		found := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM mod_scaimind_jobs WHERE job_id = ?", id).Scan(&n) == nil && n == 1
		// The row is seen before the cache has noted that it is there.
		return found && c.rows("written") > 0 && c.failing() == 0
	}, longstop, 50*time.Millisecond)
}

// A table that somebody else holds locked costs rows, nothing else; it is used again when it is free.
func TestCache_aLockedTable(t *testing.T) {
	name, db := server.Database(t)
	c := open(t, name+"?lock_wait_timeout=1&readTimeout=1m", t.Output())
	defer c.finish(t)
	c.writes(t, db, "job_1")
	locker, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer locker.Close()
	_, err = locker.ExecContext(t.Context(), "LOCK TABLES mod_scaimind_jobs WRITE")
	require.NoError(t, err)
	c.Note([]*v1.Job{job("job_2", 1, nil)}, 500)
	require.Eventually(t, func() bool { return c.failing() == 1 }, longstop, 5*time.Millisecond)
	_, err = locker.ExecContext(t.Context(), "UNLOCK TABLES")
	require.NoError(t, err)
	c.writes(t, db, "job_3")
}
