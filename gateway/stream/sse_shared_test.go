package stream_test

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/stream"
)

// printer is a coordinator with the growing log of one job.
type printer struct {
	opened, open atomic.Int64
	mu           sync.Mutex
	lines        int
	over         bool
	changed      chan struct{}
}

func newPrinter(c *gatewaytest.Coordinator) *printer {
	p := &printer{changed: make(chan struct{})}
	c.Logs = p.serve
	return p
}

func (p *printer) print(n int, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines, p.over = p.lines+n, over
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *printer) serve(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
	p.opened.Add(1)
	p.open.Add(1)
	defer p.open.Add(-1)
	at := 0
	if r.Cursor != "" {
		if _, err := fmt.Sscanf(r.Cursor, "1:0=%d", &at); err != nil {
			return err
		}
	}
	for {
		p.mu.Lock()
		if r.Tail != nil && r.Cursor == "" && at == 0 {
			at = max(0, p.lines-int(*r.Tail))
		}
		last, over, changed := min(p.lines, at+100), p.over, p.changed
		p.mu.Unlock()
		m := &v1.StreamJobLogsResponse{}
		for ; at < last; at++ {
			m.Entries = append(m.Entries, gatewaytest.Entry(at+1))
		}
		switch {
		case len(m.Entries) > 0:
			if err := s.Send(m); err != nil {
				return err
			}
		case over:
			return nil
		default:
			if err := s.Send(&v1.StreamJobLogsResponse{Cursor: fmt.Sprint("1:0=", at)}); err != nil {
				return err
			}
			select {
			case <-changed:
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
	}
}

// digest returns the digest of all further events of a stream, their number, and its end.
func digest(next func() gatewaytest.Event) (sum [sha256.Size]byte, lines int, ending string) {
	h := sha256.New()
	for {
		switch e := next(); {
		case e.Name == "log":
			lines++
			fmt.Fprintf(h, "%s %s\n", e.ID, e.Data)
		case e.Name != "" || e == (gatewaytest.Event{}):
			return [sha256.Size]byte(h.Sum(nil)), lines, e.Name + e.Data
		}
	}
}

func printed(from, to int) [sha256.Size]byte {
	h := sha256.New()
	for n := from; n <= to; n++ {
		frame := string(stream.AppendLog(nil, gatewaytest.Entry(n)))
		_, data, _ := strings.Cut(strings.TrimSpace(frame), "\ndata: ")
		fmt.Fprintf(h, "%s %s\n", gatewaytest.Entry(n).Cursor, data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// A thousand watchers of one job cost its coordinator one stream, and each one gets the whole log.
func TestLogs_aThousandWatchersShareOneUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand connections")
	}
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		p := newPrinter(c)
		config := gatewaytest.Config(c)
		config.Bounds.Streams = bounds.Unlimited
		g := gatewaytest.Run(t, config)
		const watchers, total = 1000, 300
		p.print(100, false)
		sums := make(chan [sha256.Size]byte, watchers)
		for range watchers {
			next, resp := g.Stream("/jobs/job_1/logs")
			require.Equal(t, 200, resp.StatusCode)
			go func() {
				sum, _, _ := digest(next)
				sums <- sum
			}()
		}
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			p.print(10, false)
		}
		synctest.Wait()
		require.EqualValues(t, 1, p.open.Load())
		p.print(0, true)
		want := printed(1, total)
		for range watchers {
			require.Equal(t, want, <-sums)
		}
		require.EqualValues(t, 1, p.opened.Load())
	})
}

// Wherever a caller resumes, it gets the rest, each line once; and then it shares a stream.
func TestLogs_lastEventIDAnywhereAndTailsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		p := newPrinter(c)
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		p.print(20_000, false) // more than a ring
		type result struct {
			sum   [sha256.Size]byte
			lines int
		}
		results := make([]chan result, 0)
		froms := []int{0, 1, 2, 99, 100, 101, 7777, 19_998, 19_999, 20_000, 15_000}
		begin := func(query string, headers ...string) {
			next, resp := g.Stream("/jobs/job_1/logs"+query, headers...)
			require.Equal(t, 200, resp.StatusCode)
			done := make(chan result, 1)
			results = append(results, done)
			go func() {
				sum, lines, _ := digest(next)
				done <- result{sum, lines}
			}()
		}
		for _, from := range froms {
			if from == 0 {
				begin("")
				continue
			}
			begin("", "Last-Event-ID", fmt.Sprint("1:0=", from))
		}
		begin("?tail=10")
		begin("?tail=0")
		begin("?tail=20000")
		froms = append(froms, 19_990, 20_000, 0)
		time.Sleep(5 * time.Second)
		for range 30 {
			p.print(3, false)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.EqualValues(t, 1, p.open.Load(), "all have come together")
		p.print(0, true)
		for i, from := range froms {
			require.Equal(t, result{printed(from+1, 20_090), 20_090 - from}, <-results[i], "from %d", from)
		}
	})
}

// A caller that does not read delays no other caller and takes no memory, and gets all lines when it reads.
func TestLogs_aStalledCallerHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		p := newPrinter(c)
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		const stalled, total = 50, 30_000
		var waiting []func() gatewaytest.Event
		for range stalled {
			next, resp := g.Stream("/jobs/job_1/logs")
			require.Equal(t, 200, resp.StatusCode)
			waiting = append(waiting, next)
		}
		reader, _ := g.Stream("/jobs/job_1/logs")
		before := heap()
		p.print(total, true)
		want := printed(1, total)
		sum, lines, ending := digest(reader)
		require.Equal(t, total, lines)
		require.Equal(t, want, sum)
		require.Equal(t, "error"+gatewaytest.StreamEnded, ending)
		synctest.Wait()
		require.Less(t, (heap()-before)/stalled, int64(1<<19), "for each of those who do not read")
		for _, next := range waiting[:3] {
			sum, lines, _ := digest(next)
			require.Equal(t, total, lines)
			require.Equal(t, want, sum)
		}
	})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Sharing a stream gives no caller access to a job, and no caller gets events that it did not ask for.
func TestLogs_nobodySharesWithAnotherTenantOrAnotherWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		p := newPrinter(c)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			md, _ := metadata.FromIncomingContext(s.Context())
			if tenant := md.Get(status.KeyTenant); len(tenant) != 1 || tenant[0] != "acme" {
				return grpcstatus.Error(codes.NotFound, `no job "job_1"`)
			}
			return p.serve(r, s)
		}
		config := gatewaytest.Config(c)
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "other", Tenant: "evil", User: "eve", Permissions: auth.AllPermissions})
		g := gatewaytest.Run(t, config)
		p.print(1, false)
		for i, path := range []string{
			"/jobs/job_1/logs", "/jobs/job_2/logs", "/jobs/job_1/logs?rank=0", "/jobs/job_1/logs?rank=1", "/jobs/job_1/logs?attempt=1",
			"/jobs/job_1/logs?since=2026-01-31T08:00:00Z", "/jobs/job_1/logs?since=2026-01-31T08:00:01Z", "/jobs/job_1/logs?consistency=stale",
		} {
			for range 3 {
				_, resp := g.Stream(path)
				require.Equal(t, 200, resp.StatusCode)
				require.EqualValues(t, i+1, p.opened.Load(), path)
			}
			_, resp := g.Stream(path, "Authorization", "Bearer other")
			require.Equal(t, 404, resp.StatusCode, path)
		}
	})
}
