package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/yardstick"
)

// surface measures the cost of REST for reads: the same job read over REST and over gRPC, beside a bare net/http server
// that decodes and encodes as much JSON, each with 64 clients, in turn.
func surface(ctx context.Context, b *bench) ([]figure, error) {
	c, stop, err := b.idle(ctx, "--agents", "0")
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	rest := procs.NewREST(info)
	job := procs.Command("bench-surface", 1, "/usr/bin/python3", "train.py", "--seed", "7", padding(80))
	id, err := rest.Submit(ctx, "", job)
	if err != nil {
		return nil, err
	}
	jobs, closeAll, err := dial(c)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	echo, err := yardstick.StartEcho(ctx)
	if err != nil {
		return nil, err
	}
	var shown any
	if err := rest.Get(ctx, "/jobs/"+id, &shown); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"status": "ok", "data": shown})
	if err != nil {
		return nil, err
	}
	loads := []struct {
		name string
		op   func(int) error
		got  []yardstick.Result
	}{
		{name: "bare net/http echo", op: post(echo.URL, "", body, http.StatusOK)},
		{name: "REST", op: get(info.Gateway.URL+"/v1/modules/scaimind/jobs/"+id, info.Token)},
		{name: "gRPC", op: func(int) error {
			_, err := jobs.GetJob(call(ctx), &v1.GetJobRequest{JobId: id})
			return err
		}},
	}
	for range b.repeats {
		for i := range loads {
			r := yardstick.Drive(submitClients, b.length(), loads[i].op)
			if _, err := failIf(r); err != nil {
				return nil, fmt.Errorf("%s: %w", loads[i].name, err)
			}
			loads[i].got = append(loads[i].got, r)
		}
	}
	if err := echo.Stop(); err != nil {
		return nil, err
	}
	say := func(i int) (float64, string) {
		m := middle(loads[i].got)
		return m.PerSecond, fmt.Sprintf("%.0f/s, p50 / p99 %s / %s", m.PerSecond, ms(m.P50), ms(m.P99))
	}
	bare, bareText := say(0)
	ours, oursText := say(1)
	grpc, grpcText := say(2)
	return []figure{
		{fmt.Sprintf("GET /jobs/{id} over REST, linearizable, 64 clients, %d bytes", len(body)), oursText, "bare net/http echo of the same JSON: " + bareText, fmt.Sprintf("- (is %.2f x)", ours/bare), true},
		{"the same over REST", oursText, "GetJob over gRPC, straight to the coordinators: " + grpcText, fmt.Sprintf("- (is %.2f x)", ours/grpc), true},
	}, stop()
}

// middle returns the run with the median rate.
func middle(all []yardstick.Result) yardstick.Result {
	rates := make([]float64, len(all))
	for i, r := range all {
		rates[i] = r.PerSecond
	}
	m := median(rates)
	for _, r := range all {
		if r.PerSecond == m {
			return r
		}
	}
	return all[0]
}

// get returns an operation that reads a URL.
func get(url, token string) func(int) error {
	return func(int) error {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := httpClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d", resp.StatusCode)
		}
		return nil
	}
}
