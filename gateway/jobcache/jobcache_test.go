package jobcache

import (
	"context"
	"io"
	"log/slog"
	"net"
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

func config(address string, logs io.Writer) Config {
	return Config{Database: address, Encode: encode, Logger: slog.New(slog.NewTextHandler(logs, nil)), Registry: prometheus.NewRegistry()}
}

func open(t *testing.T, address string, logs io.Writer) *Cache {
	config := config(address, logs)
	config.WriteTimeout = longstop
	c, err := Open(config)
	require.NoError(t, err)
	return c
}

// finish writes what is waiting.
func (c *Cache) finish(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), longstop)
	defer cancel()
	c.Close(ctx)
}

// rows is how many jobs came to an outcome, as the metrics say.
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

func TestCache_whatWaitsIsBoundedInBytes(t *testing.T) {
	c := open(t, silent(t), io.Discard)
	for range 20 {
		c.Note([]*v1.Job{job("job_1", 1, nil)}, maxQueued/4)
	}
	require.GreaterOrEqual(t, c.rows("dropped"), 15.0)
	require.LessOrEqual(t, c.queued.Load(), int64(maxQueued))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.Close(ended) // and nothing holds up the end
}

// silent is a database server that takes connections and says nothing.
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
	for address, says := range map[string]string{
		"": "give mysql:USER", "mysql:": "no database", "mysql:mind:hunter2@tcp(db:3306": "no DSN", "mysql:mind:hunter2@tcp(db:3306)/": "no database",
		"/var/lib/mind/jobs.db":                 "files (SQLite) are not supported: give a database of MariaDB or MySQL as mysql:USER",
		"sqlite:jobs.db":                        "or leave job_cache out",
		"mind:hunter2@tcp(db:3306)/mind":        "files (SQLite) are not supported",
		"mysql:mind:hunter2@tcp(db)/m?tls=ours": "no DSN",
	} {
		err := Check(Config{Database: address})
		require.ErrorContains(t, err, says, address)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.ErrorContains(t, Check(Config{Database: "mysql:x@/y", Keep: -1}), "job_cache_keep")
	require.NoError(t, Check(Config{Database: "mysql:mind:hunter2@tcp(db:3306)/mind?tls=true"}))
}
