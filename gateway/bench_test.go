package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/stream"
	"github.com/mindcoordinator/mind/gateway/wire"
)

var submitBody = []byte(`{"name":"bench","command_config":{"argv":["/bin/true"],"cwd":"/tmp","environment":{"A":"1"}},` +
	`"resource_config":{"gpu_count":1,"gpu_type":"H100"},"scheduling_config":{"queue":"default","priority":5},"labels":{"team":"bench"}}`)

// quick is a coordinator that answers at once.
type quick struct {
	v1.UnimplementedJobServiceServer
}

func (quick) SubmitJobs(ctx context.Context, r *v1.SubmitJobsRequest) (*v1.SubmitJobsResponse, error) {
	md := metadata.Pairs(status.KeyIndex, "42", status.KeyLeader, "c1=127.0.0.1:1")
	_ = grpc.SetHeader(ctx, md)
	_ = grpc.SetTrailer(ctx, md)
	reply := &v1.SubmitJobsResponse{}
	for range r.Jobs {
		reply.Results = append(reply.Results, &v1.SubmitJobResult{Job: &v1.SubmitJobResponse{JobId: "job_0123456789abc", Status: v1.JobStatus_PENDING}})
	}
	return reply, nil
}

func (quick) StreamJobLogs(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
	message := &v1.StreamJobLogsResponse{}
	for n := range 100 {
		message.Entries = append(message.Entries, gatewaytest.Entry(n))
	}
	for {
		if err := s.Send(message); err != nil {
			return err
		}
	}
}

func (quick) SubmitJob(ctx context.Context, _ *v1.SubmitJobRequest) (*v1.SubmitJobResponse, error) {
	md := metadata.Pairs(status.KeyIndex, "42", status.KeyLeader, "c1=127.0.0.1:1")
	_ = grpc.SetHeader(ctx, md)
	_ = grpc.SetTrailer(ctx, md)
	return &v1.SubmitJobResponse{JobId: "job_0123456789abc", Status: v1.JobStatus_PENDING}, nil
}

func quickCoordinator(b *testing.B) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := grpc.NewServer(client.ServerKeepalive()...)
	v1.RegisterJobServiceServer(server, quick{})
	go func() { _ = server.Serve(lis) }()
	b.Cleanup(server.Stop)
	return lis.Addr().String()
}

// load sends submits from 64 clients.
func load(b *testing.B, url string) {
	caller := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	work := make(chan struct{}, 64)
	var clients sync.WaitGroup
	b.ReportAllocs()
	before := cpuTime()
	b.ResetTimer()
	for range 64 {
		clients.Go(func() {
			for range work {
				r, _ := http.NewRequest("POST", url, bytes.NewReader(submitBody))
				r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenAll)
				resp, err := caller.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					b.Errorf("status %d", resp.StatusCode)
					return
				}
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	clients.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submits/s")
	// This is the CPU time of the whole process: clients, gateway and coordinator. On a shared machine it is more
	// reliable than the elapsed time.
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkSubmit compares, in one process with its clients and coordinator:
// the gateway, and a bare HTTP server that decodes the JSON and answers.
func BenchmarkSubmit(b *testing.B) {
	b.Run("rest", func(b *testing.B) {
		config := gatewaytest.Config()
		config.Coordinators, config.DialOptions = []string{quickCoordinator(b)}, nil
		g := gatewaytest.NewGate(b, config)
		serve(b, g.Handler, rest.Prefix+"/jobs")
	})
	b.Run("bare http and json", func(b *testing.B) {
		serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{"job_id": "job_0123456789abc"})
		}), "/")
	})
	b.Run("bare grpc", func(b *testing.B) {
		config := gatewaytest.Config()
		config.Coordinators, config.DialOptions = []string{quickCoordinator(b)}, nil
		c, err := client.Dial(client.Config{Addrs: config.Coordinators, Secret: config.APISecret})
		require.NoError(b, err)
		defer func() { _ = c.Close() }()
		request := &v1.SubmitJobRequest{}
		_, _ = wire.Decode(submitBody, request)
		b.ReportAllocs()
		b.SetParallelism(64 / runtime.GOMAXPROCS(0))
		before := cpuTime()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Jobs().SubmitJob(b.Context(), request); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submits/s")
		b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	})
}

func serve(b *testing.B, handler http.Handler, path string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(lis) }()
	defer func() { _ = server.Close() }()
	load(b, "http://"+lis.Addr().String()+path)
}

// BenchmarkLogs reads a long log through the gateway; one op is 100 lines.
func BenchmarkLogs(b *testing.B) {
	config := gatewaytest.Config()
	config.Coordinators, config.DialOptions = []string{quickCoordinator(b)}, nil
	server := httptest.NewServer(gatewaytest.NewGate(b, config).Handler)
	defer server.Close()
	r, _ := http.NewRequest("GET", server.URL+rest.Prefix+"/jobs/job_1/logs", nil)
	r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenAll)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	var frames []byte
	for n := range 100 {
		frames = stream.AppendLog(frames, gatewaytest.Entry(n))
	}
	b.SetBytes(int64(len(frames)))
	b.ResetTimer()
	for range b.N {
		_, err := io.ReadFull(resp.Body, frames)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "lines/s")
}
