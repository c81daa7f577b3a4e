package jobcache

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// record runs a test with a cache of a recorder, in virtual time.
func record(t *testing.T, logs io.Writer, test func(*testing.T, *Cache, *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		c := start(config("", logs), r.database())
		test(t, c, r)
		c.finish(t)
		synctest.Wait()
		require.Zero(t, r.open, "connections that are left open")
	})
}

func (c *Cache) note(jobs ...*v1.Job) {
	c.Note(jobs, 500)
	synctest.Wait()
}

func TestWriter_writesWhatIsNews(t *testing.T) {
	record(t, t.Output(), func(t *testing.T, c *Cache, r *recorder) {
		c.note(job("job_1", 5, nil), job("job_2", 6, nil))
		c.note(job("job_1", 5, nil), job("job_2", 7, nil), job("job_3", 1, nil))
		require.EqualValues(t, 4, c.rows("written"))
		require.EqualValues(t, 1, c.rows("unchanged"))
		require.Len(t, r.rows, 4)
		c.note(job("job_1", 4, nil))
		require.Len(t, r.rows, 4, "an older answer")
		time.Sleep(rewriteAfter)
		c.note(job("job_1", 5, nil))
		require.Len(t, r.rows, 5, "cached_at says how old a row is")
	})
}

func TestWriter_namesAreValuesAndEnvironmentsStayOut(t *testing.T) {
	record(t, t.Output(), func(t *testing.T, c *Cache, r *recorder) {
		one := job("job_1", 5, nil)
		c.note(one)
		require.Len(t, r.rows, 1)
		row := map[string]any{}
		for i, column := range columns {
			row[column] = r.rows[0][i]
		}
		require.Equal(t, one.Name, row["name"])
		require.Equal(t, "TRAINING", row["status"])
		require.Equal(t, "2026-01-31 08:00:00.250000", row["created_at"])
		require.JSONEq(t, `{"hyperparameters":{"lr":"0.1"}}`, row["training_config"].(string))
		require.Nil(t, row["data_config"])
		require.Nil(t, row["error_type"])
		require.NotEmpty(t, one.TrainingConfig.Environment, "the job itself stays as it was")
		for _, text := range r.texts {
			require.NotContains(t, text, "Robert")
		}
		require.NotContains(t, fmt.Sprint(r.rows), "hunter2")
	})
}

func TestWriter_removesOldRowsNowAndThen(t *testing.T) {
	record(t, t.Output(), func(t *testing.T, c *Cache, r *recorder) {
		begun := time.Now()
		for i := range 3 {
			c.note(job("job_1", uint64(2*i), nil))
			time.Sleep(pruneEvery / 2)
			c.note(job("job_1", uint64(2*i+1), nil))
			time.Sleep(pruneEvery/2 + time.Second)
		}
		require.Len(t, r.pruned, 3)
		require.Equal(t, []any{stamp(begun.Add(-30 * 24 * time.Hour)), int64(pruneRows)}, []any{r.pruned[0][0], r.pruned[0][1]})
	})
}

// After a failure the database is left alone, longer each time up to a minute, and then used again.
func TestWriter_leavesABrokenDatabaseAlone(t *testing.T) {
	var logs strings.Builder
	record(t, &logs, func(t *testing.T, c *Cache, r *recorder) {
		c.note(job("job_1", 1, nil))
		r.broken, r.tried = errors.New("access denied for mind with hunter2"), nil
		for i := range 3 * 60 * 10 {
			c.note(job("job_2", uint64(i), nil))
			time.Sleep(100 * time.Millisecond)
		}
		require.EqualValues(t, 1, c.failing())
		// The first statement failed on the open connection.
		var pauses []time.Duration
		for i := range r.tried[1:] {
			pauses = append(pauses, r.tried[i+1].Sub(r.tried[i]))
		}
		require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute}, pauses)
		require.EqualValues(t, 3*60*10, c.rows("failed")+c.rows("dropped"))
		require.Equal(t, 1, strings.Count(logs.String(), "the job cache cannot be written"))
		require.NotContains(t, logs.String(), "hunter2")

		r.broken, r.table = nil, false // it is another database
		time.Sleep(maxPause)
		c.note(job("job_1", 1, nil))
		require.Zero(t, c.failing())
		require.Len(t, r.rows, 2, "what was known of the old database does not count")
		require.Contains(t, logs.String(), "the job cache is written again")
	})
}

// A transaction that fails half-way has written nothing, and no job of it counts as written.
func TestWriter_writesAllOrNothing(t *testing.T) {
	record(t, t.Output(), func(t *testing.T, c *Cache, r *recorder) {
		c.note(job("job_1", 1, nil))
		r.table = false
		c.note(job("job_2", 1, nil), job("job_3", 1, nil))
		require.EqualValues(t, 2, c.rows("failed"))
		time.Sleep(minPause)
		c.note(job("job_2", 1, nil))
		require.EqualValues(t, 2, c.rows("written"))
		require.Len(t, r.rows, 2)
	})
}

// A database that holds every statement costs rows, nothing else.
func TestWriter_givesUpAWriteThatIsHeld(t *testing.T) {
	record(t, t.Output(), func(t *testing.T, c *Cache, r *recorder) {
		r.holds = true
		begun := time.Now()
		for i := range 2 * maxBatches {
			c.note(job(fmt.Sprint("job_", i), 2, nil))
		}
		require.EqualValues(t, maxBatches-1, c.rows("dropped"), "what waits is bounded in number")
		require.Equal(t, begun, time.Now(), "nobody who notes jobs waits")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, c.failing())
		r.holds = false
		time.Sleep(minPause)
		c.note(job("job_1", 3, nil))
		require.Zero(t, c.failing())
		require.Len(t, r.rows, 1)
	})
}
