package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// idleWatchers measures the gateway's memory with 5,000 open streams of one silent job's log.
func idleWatchers(ctx context.Context, b *bench) ([]figure, error) {
	const watchers = 5000
	c, stop, err := b.idle(ctx, "--agents", "1", "--gpus", "8xH100")
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	rest := procs.NewREST(info)
	id, err := rest.Submit(ctx, "", procs.Command("bench-silent", 1, "/bin/sh", "-c", "echo hello; exec sleep 900"))
	if err != nil {
		return nil, err
	}
	addr := strings.TrimPrefix(info.Gateway.URL, "http://")
	request := fmt.Sprintf("GET /v1/modules/scaimind/jobs/%s/logs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", id, addr, info.Token)
	// The first streams make the gateway allocate all that it needs only once.
	first, err := crowd(ctx, addr, request, 100)
	defer closeConns(first)
	if err != nil {
		return nil, err
	}
	if err := settle(ctx); err != nil {
		return nil, err
	}
	before, err := rss(info.Gateway.PID)
	if err != nil {
		return nil, err
	}
	rest5000, err := crowd(ctx, addr, request, watchers)
	defer closeConns(rest5000)
	if err != nil {
		return nil, err
	}
	if err := settle(ctx); err != nil {
		return nil, err
	}
	after, err := rss(info.Gateway.PID)
	if err != nil {
		return nil, err
	}
	open, err := procs.Gauge(ctx, info.Gateway.URL, "mind_sse_streams")
	if err != nil {
		return nil, err
	}
	upstreams, err := procs.Gauge(ctx, info.Gateway.URL, "mind_sse_upstreams")
	if err != nil {
		return nil, err
	}
	if open < watchers {
		return nil, fmt.Errorf("only %.0f streams are open", open)
	}
	closeConns(first)
	closeConns(rest5000)
	if err := rest.Do(ctx, "POST", "/jobs/"+id+"/cancel", nil, nil, nil); err != nil {
		return nil, err
	}
	return []figure{{
		fmt.Sprintf("gateway's memory per idle event stream, %d of one job (resident, after two rounds of keepalives)", watchers),
		fmt.Sprintf("%.1f KiB (%d -> %d MiB), %.0f stream of a coordinator", float64(after-before)/watchers/1024, before>>20, after>>20, upstreams), "-", "-", true,
	}}, stop()
}

// settle waits until all streams had keepalives, and the garbage collector ran.
func settle(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(35 * time.Second):
		return nil
	}
}

// crowd opens streams, each on its own connection, and returns when each has got its first event.
func crowd(ctx context.Context, addr, request string, n int) ([]net.Conn, error) {
	conns, errs := make([]net.Conn, n), make([]error, n)
	var all sync.WaitGroup
	turns := make(chan struct{}, 64)
	for i := range n {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			conns[i], errs[i] = open(ctx, addr, request)
		})
	}
	all.Wait()
	return conns, errors.Join(errs...)
}

func open(ctx context.Context, addr, request string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return conn, err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return conn, nil
		}
	}
	return conn, errors.New("a stream ended before its first event")
}

func closeConns(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}
