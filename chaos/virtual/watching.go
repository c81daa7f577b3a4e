package virtual

import (
	"context"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	apistatus "github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/check"
)

// streamLife is how long a watcher keeps a stream before it reconnects, as browsers and proxies do.
const streamLife = 90 * time.Second

// Watching is a watcher of a tenant's events that continues where it was after its stream breaks.
type Watching struct {
	*check.Watch
	cluster *Cluster
	stop    context.CancelFunc
	done    chan struct{}
	// Streams counts the streams that it opened.
	Streams int
}

// WatchEvents starts a watcher, which watches until End.
func (c *Cluster) WatchEvents(tenant string) *Watching {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watching{Watch: check.NewWatch(c.Findings, tenant), cluster: c, stop: stop, done: make(chan struct{})}
	events := v1.NewEventServiceClient(c.Client())
	go func() {
		defer close(w.done)
		from := &v1.WatchEventsRequest{}
		for ctx.Err() == nil {
			w.Streams++
			if err := w.follow(ctx, events, from); status.Code(err) == codes.FailedPrecondition {
				from = &v1.WatchEventsRequest{} // the position is too old, as the error says
			}
			wait.For(ctx, time.Second)
		}
	}()
	return w
}

// follow reads one stream to its end, and records in from where to continue.
func (w *Watching) follow(ctx context.Context, events v1.EventServiceClient, from *v1.WatchEventsRequest) error {
	ctx, cancel := context.WithTimeout(ctx, streamLife)
	defer cancel()
	stream, err := events.WatchEvents(client.WithCall(ctx, client.Call{Tenant: w.Tenant}), from)
	if err != nil {
		return err
	}
	if from.SinceIndex == nil {
		header, err := stream.Header()
		if err != nil {
			return err
		}
		index, err := strconv.ParseUint(strings.Join(header.Get(apistatus.KeyIndex), ""), 10, 64)
		if err != nil {
			return err // a stream that failed before it began has no index
		}
		w.Begin(index)
		from.SinceIndex = &index
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, e := range resp.GetEvents() {
			w.Saw(check.Stamp{Index: e.GetIndex(), Pos: int(e.GetPosition())})
		}
		from.Cursor = resp.GetCursor()
		index, position, _ := strings.Cut(from.Cursor, ".")
		i, err1 := strconv.ParseUint(index, 10, 64)
		p, err2 := strconv.Atoi(position)
		if err1 != nil || err2 != nil {
			w.cluster.Findings.Add("a watcher of %s is given the cursor %q", w.Tenant, from.Cursor)
			continue
		}
		w.Reached(check.Stamp{Index: i, Pos: p})
	}
}

// End waits until the watcher has received all events up to the present, ends it, and checks the events. It returns
// their number.
func (w *Watching) End(within time.Duration) (events int) {
	newest := w.cluster.Replicas.Newest()
	for deadline := time.Now().Add(within); w.Last().Index < newest.Index; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			w.cluster.Findings.Add("I10: a watcher of %s has come to index %d, and the log to %d", w.Tenant, w.Last().Index, newest.Index)
			break
		}
	}
	w.stop()
	<-w.done
	return w.Verify(w.cluster.Replicas)
}
