package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/yardstick"
)

// submitClients is the number of closed-loop clients of the throughput rows.
const submitClients = 64

// idle starts a cluster without agents, to measure the write path and not the start of processes.
func (b *bench) idle(ctx context.Context, args ...string) (*procs.Cluster, func() error, error) {
	dir, err := os.MkdirTemp(b.scratch, "mind-bench-")
	if err != nil {
		return nil, nil, err
	}
	c, err := procs.Start(ctx, b.mind, dir, args...)
	if err != nil {
		return nil, nil, err
	}
	return c, func() error {
		if err := c.Stop(); err != nil {
			return err
		}
		return os.RemoveAll(dir)
	}, nil
}

// smallJob is a job of about the size of the yardstick's command, 256 bytes.
func smallJob(name string) *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name:           name,
		CommandConfig:  &v1.CommandConfig{Argv: []string{"/usr/bin/python3", "train.py", "--seed", "7", padding(80)}, Cwd: "/data/experiments/bench"},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 1},
		Labels:         map[string]string{"team": "nlp", "experiment": "bench"},
	}
}

// against measures a rate of Mind on a fresh cluster and a rate of bare raft on fresh peers, in turn.
func (b *bench) against(ctx context.Context, yard func(*yardstick.Cluster) (float64, error), mind func(*procs.Cluster) (float64, error)) (y, m float64, err error) {
	return b.pairs(func() (float64, error) {
		peers, err := yardstick.StartCluster(ctx, b.scratch)
		if err != nil {
			return 0, err
		}
		v, err := yard(peers)
		if err != nil {
			_ = peers.Stop()
			return 0, err
		}
		return v, peers.Stop()
	}, func() (float64, error) {
		c, stop, err := b.idle(ctx, "--agents", "0")
		if err != nil {
			return 0, err
		}
		v, err := mind(c)
		if err != nil {
			_ = stop()
			return 0, err
		}
		return v, stop()
	})
}

func grpcSubmits(ctx context.Context, b *bench) ([]figure, error) {
	y, m, err := b.against(ctx, func(p *yardstick.Cluster) (float64, error) {
		r, err := p.Apply(submitClients, b.seconds, 1)
		if err != nil {
			return 0, err
		}
		return failIf(r)
	}, func(c *procs.Cluster) (float64, error) {
		jobs, closeAll, err := dial(c)
		if err != nil {
			return 0, err
		}
		defer closeAll()
		job := smallJob("bench-grpc")
		return failIf(yardstick.Drive(submitClients, b.length(), func(int) error {
			_, err := jobs.SubmitJob(call(ctx), job)
			return err
		}))
	})
	return []figure{{"durable submits over gRPC, 64 clients", rate(m), "raw raft `Apply`, 64 proposers: " + rate(y), fmt.Sprintf(">= 0.6 x (is %.2f x)", m/y), m >= 0.6*y}}, err
}

func restSubmits(ctx context.Context, b *bench) ([]figure, error) {
	body := []byte(`{"name":"bench-rest","command_config":{"argv":["/usr/bin/python3","train.py","--seed","7"],"cwd":"/data/experiments/bench"},"resource_config":{"gpu_count":1},"labels":{"team":"nlp","experiment":"bench"}}`)
	bare := []byte(`{"name":"bench-rest","labels":{"team":"nlp","experiment":"bench"},"payload":"` + padding(190) + `"}`)
	y, m, err := b.against(ctx, func(p *yardstick.Cluster) (float64, error) {
		return failIf(yardstick.Drive(submitClients, b.length(), post(p.ApplyURL(), "", bare, 200)))
	}, func(c *procs.Cluster) (float64, error) {
		info, err := c.Info()
		if err != nil {
			return 0, err
		}
		return failIf(yardstick.Drive(submitClients, b.length(), post(info.Gateway.URL+"/v1/modules/scaimind/jobs", info.Token, body, 201)))
	})
	return []figure{{"the same over REST through the gateway", rate(m), "bare HTTP JSON -> raft `Apply`: " + rate(y), fmt.Sprintf(">= 0.7 x (is %.2f x)", m/y), m >= 0.7*y}}, err
}

func batchSubmits(ctx context.Context, b *bench) ([]figure, error) {
	const perRequest, clients = 100, 16
	y, m, err := b.against(ctx, func(p *yardstick.Cluster) (float64, error) {
		r, err := p.Apply(256, b.seconds, 64)
		if err != nil {
			return 0, err
		}
		return failIf(r)
	}, func(c *procs.Cluster) (float64, error) {
		jobs, closeAll, err := dial(c)
		if err != nil {
			return 0, err
		}
		defer closeAll()
		request := &v1.SubmitJobsRequest{}
		for range perRequest {
			request.Jobs = append(request.Jobs, smallJob("bench-batch"))
		}
		v, err := failIf(yardstick.Drive(clients, b.length(), func(int) error {
			resp, err := jobs.SubmitJobs(call(ctx), request)
			if err == nil && (len(resp.Results) != perRequest || resp.Results[0].Code != 0) {
				err = fmt.Errorf("batch refused: %v", resp.Results[0])
			}
			return err
		}))
		return v * perRequest, err
	})
	return []figure{{"batch submits, 100 jobs a request", rate(m), "raw raft `Apply`, up to 64 commands an entry, 256 proposers: " + rate(y), fmt.Sprintf(">= 0.4 x (is %.2f x)", m/y), m >= 0.4*y}}, err
}

func submitLatency(ctx context.Context, b *bench) ([]figure, error) {
	y, m, err := b.against(ctx, func(p *yardstick.Cluster) (float64, error) {
		r, err := p.Apply(1, b.seconds, 1)
		return float64(r.P50), err
	}, func(c *procs.Cluster) (float64, error) {
		jobs, closeAll, err := dial(c)
		if err != nil {
			return 0, err
		}
		defer closeAll()
		job := smallJob("bench-latency")
		r := yardstick.Drive(1, b.length(), func(int) error {
			_, err := jobs.SubmitJob(call(ctx), job)
			return err
		})
		_, err = failIf(r)
		return float64(r.P50), err
	})
	return []figure{{"submit, one client, p50", ms(time.Duration(m)), "raw raft `Apply`: " + ms(time.Duration(y)), fmt.Sprintf("<= 2 x (is %.2f x)", m/y), m <= 2*y}}, err
}

func (b *bench) length() time.Duration { return time.Duration(b.seconds) * time.Second }
