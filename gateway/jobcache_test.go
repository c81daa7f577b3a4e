package gateway

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// listing returns a coordinator that answers with a page of different jobs.
func listing(t *testing.T) *scripted {
	c := newScripted(t)
	page := uint64(0)
	c.on("ListJobs", func(context.Context, any) (any, error) {
		page++
		reply := &v1.ListJobsResponse{}
		for i := range 100 {
			reply.Jobs = append(reply.Jobs, &v1.Job{
				JobId: fmt.Sprintf("job_%d", i), TenantId: "acme", Name: strings.Repeat("x", 1000), Status: v1.JobStatus_TRAINING, Revision: page,
				TrainingConfig: &v1.TrainingConfig{Hyperparameters: map[string]string{"page": fmt.Sprint(page)}},
				DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "s3://b/k?X-Amz-Signature=hunter2"}}},
			})
		}
		return reply, nil
	})
	return c
}

func TestJobCache_isRefreshedByListsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c := listing(t)
	c.on("GetJob", func(context.Context, any) (any, error) {
		return &v1.GetJobResponse{Job: &v1.Job{JobId: "job_read", TenantId: "acme"}}, nil
	})
	c.on("CancelJob", func(context.Context, any) (any, error) {
		return &v1.CancelJobResponse{Job: &v1.Job{JobId: "job_canceled", TenantId: "acme"}}, nil
	})
	config := testConfig(c)
	config.JobCache = path
	s, err := newServer(config.withDefaults())
	require.NoError(t, err)
	g := &gate{t: t, server: s, handler: s.router()}
	require.Equal(t, 200, g.do("GET", prefix+"/jobs/job_read", "").code)
	require.Equal(t, 200, g.do("POST", prefix+"/jobs/job_canceled/cancel", "").code)
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxIdleConns(0)
	// A write that takes too long is given up, and closing waits only a second for the rest.
	require.Eventually(t, func() bool {
		require.Equal(t, 200, g.do("GET", prefix+"/jobs", "").code)
		var oldest int
		if db.QueryRow("SELECT MIN(revision) FROM mod_scaimind_jobs WHERE name <> ''").Scan(&oldest) != nil || oldest < 2 {
			return false
		}
		_, err := os.Stat(path + "-wal")
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	s.close()
	// The connection of a canceled write is closed a moment later.
	require.Eventually(t, func() bool {
		_, err := os.Stat(path + "-wal")
		return os.IsNotExist(err)
	}, time.Minute, 10*time.Millisecond, "the cache has not let go of its file")
	var jobs, newest int
	require.NoError(t, db.QueryRow("SELECT COUNT(*), MAX(revision) FROM mod_scaimind_jobs WHERE tenant_id = 'acme'").Scan(&jobs, &newest))
	require.Equal(t, 100, jobs)
	var config1 string
	require.NoError(t, db.QueryRow("SELECT json_extract(training_config, '$.hyperparameters.page') FROM mod_scaimind_jobs WHERE revision = ?", newest).Scan(&config1))
	require.Equal(t, fmt.Sprint(newest), config1, "as the REST interface shows it")
	require.NoError(t, db.QueryRow("SELECT json_extract(data_config, '$.sources[0].path') FROM mod_scaimind_jobs LIMIT 1").Scan(&config1))
	require.Equal(t, "s3://b/k?X-Amz-Signature=***", config1, "readers of dashboards may not see more than callers who may view jobs")
}

// If anything fails in the cache, lists are still answered, and only the metrics show the failure.
func TestJobCache_noRequestFailsWithIt(t *testing.T) {
	for name, database := range map[string]func(t *testing.T) string{
		"nobody there": func(*testing.T) string { return "mysql:mind:hunter2@tcp(127.0.0.1:1)/mind" },
		"a server that is silent": func(t *testing.T) string {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			return "mysql:mind:hunter2@tcp(" + listener.Addr().String() + ")/mind?readTimeout=300ms"
		},
		"no file can be there": func(*testing.T) string { return "/dev/null/jobs.db" },
		"not a database":       func(*testing.T) string { return "/proc/self/status" },
		"a locked file": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "jobs.db")
			db, err := sql.Open("sqlite", path+"?_txlock=exclusive")
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			tx, err := db.Begin()
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return path
		},
		"a full disk": func(t *testing.T) string {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("a small disk cannot be mounted here: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
			return filepath.Join(dir, "jobs.db")
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(listing(t))
			config.JobCache = database(t)
			g := newGate(t, config)
			end := time.Now().Add(time.Minute)
			for failing := false; !failing; {
				require.True(t, time.Now().Before(end), "the failure never shows in the metrics")
				a := g.do("GET", prefix+"/jobs", "")
				require.Equal(t, 200, a.code)
				require.Len(t, g.data(a)["jobs"], 100)
				metrics := g.do("GET", "/metrics", "").body
				require.NotContains(t, metrics, "hunter2")
				failing = strings.Contains(metrics, "\nmind_gateway_job_cache_failing 1\n")
			}
			for range 20 { // also while it is known to be broken
				require.Equal(t, 200, g.do("GET", prefix+"/jobs", "").code)
			}
			require.Equal(t, 200, g.do("GET", "/health/ready", "").code)
		})
	}
}
