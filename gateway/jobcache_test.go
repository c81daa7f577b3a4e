package gateway_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/jobcache/mariadb"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// listing answers with a page of jobs, of which no two are alike.
func listing(t *testing.T) *gatewaytest.Coordinator {
	c := gatewaytest.NewCoordinator(t)
	page := uint64(0)
	c.On("ListJobs", func(context.Context, any) (any, error) {
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
	var server mariadb.Server
	defer server.Stop()
	address, db := server.Database(t)
	c := listing(t)
	c.On("GetJob", func(context.Context, any) (any, error) {
		return &v1.GetJobResponse{Job: &v1.Job{JobId: "job_read", TenantId: "acme"}}, nil
	})
	c.On("CancelJob", func(context.Context, any) (any, error) {
		return &v1.CancelJobResponse{Job: &v1.Job{JobId: "job_canceled", TenantId: "acme"}}, nil
	})
	config := gatewaytest.Config(c)
	config.JobCache = address
	handler, release, err := gateway.Handler(config)
	require.NoError(t, err)
	g := gatewaytest.GateOf(t, handler)
	require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs/job_read", "").Code)
	require.Equal(t, 200, g.Do("POST", rest.Prefix+"/jobs/job_canceled/cancel", "").Code)
	// A write that takes too long is given up, and closing waits for what is left for a second only.
	require.Eventually(t, func() bool {
		require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs", "").Code)
		var oldest int
		return db.QueryRow("SELECT MIN(revision) FROM mod_scaimind_jobs WHERE name <> ''").Scan(&oldest) == nil && oldest >= 2
	}, time.Minute, 10*time.Millisecond)
	release()
	// One statement sees one state: the server may be at a write that was cut off.
	var jobs, as, masked int
	require.NoError(t, db.QueryRow(`SELECT COUNT(*),
		SUM(JSON_VALUE(training_config, '$.hyperparameters.page') = revision),
		SUM(JSON_VALUE(data_config, '$.sources[0].path') = 's3://b/k?X-Amz-Signature=***')
		FROM mod_scaimind_jobs WHERE tenant_id = 'acme'`).Scan(&jobs, &as, &masked))
	require.Equal(t, 100, jobs)
	require.Equal(t, 100, as, "configurations are as the REST interface shows them")
	require.Equal(t, 100, masked, "readers of dashboards may not see more than callers who may view jobs")
}

// says is a server that says something to each that connects, and hangs up.
func says(t *testing.T, text string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}()
	return "mysql:mind:hunter2@tcp(" + listener.Addr().String() + ")/mind"
}

// TestJobCache_noRequestFailsWithIt holds that lists are answered whatever is wrong with the cache; only metrics tell.
func TestJobCache_noRequestFailsWithIt(t *testing.T) {
	var server mariadb.Server
	defer server.Stop()
	for name, database := range map[string]func(t *testing.T) string{
		"nobody there": func(*testing.T) string { return "mysql:mind:hunter2@tcp(127.0.0.1:1)/mind" },
		"a server that is silent": func(t *testing.T) string {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			return "mysql:mind:hunter2@tcp(" + listener.Addr().String() + ")/mind?readTimeout=300ms"
		},
		"a server that hangs up": func(t *testing.T) string { return says(t, "") },
		"not a database":         func(t *testing.T) string { return says(t, "220 mail.example.com ESMTP hunter2\r\n") },
		"a wrong password": func(t *testing.T) string {
			address, _ := server.Database(t)
			return strings.Replace(address, "hunter2", "hunter2hunter2", 1)
		},
		"another table of that name": func(t *testing.T) string {
			address, db := server.Database(t)
			_, err := db.Exec("CREATE TABLE mod_scaimind_jobs (jobs INT)")
			require.NoError(t, err)
			return address
		},
		"a locked table": func(t *testing.T) string {
			address, db := server.Database(t)
			locker, err := db.Conn(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { _ = locker.Close() })
			for _, statement := range []string{"CREATE TABLE mod_scaimind_jobs (jobs INT)", "LOCK TABLES mod_scaimind_jobs WRITE"} {
				_, err := locker.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			return address + "?lock_wait_timeout=1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := gatewaytest.Config(listing(t))
			config.JobCache = database(t)
			g := gatewaytest.NewGate(t, config)
			end := time.Now().Add(time.Minute)
			for failing := false; !failing; {
				require.True(t, time.Now().Before(end), "the failure never shows in the metrics")
				a := g.Do("GET", rest.Prefix+"/jobs", "")
				require.Equal(t, 200, a.Code)
				require.Len(t, g.Data(a)["jobs"], 100)
				metrics := g.Do("GET", "/metrics", "").Body
				require.NotContains(t, metrics, "hunter2")
				failing = strings.Contains(metrics, "\nmind_gateway_job_cache_failing 1\n")
			}
			for range 20 { // while it is known to be broken, too
				require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs", "").Code)
			}
			require.Equal(t, 200, g.Do("GET", "/health/ready", "").Code)
		})
	}
}
