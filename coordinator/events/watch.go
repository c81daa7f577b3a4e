package events

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// eventTopics are the topics that watchers may ask for. The gateway says which of them a caller may see.
var eventTopics = slices.Concat(status.MindTopics, status.CoreTopics)

const (
	// eventBatch is the number of events that are examined for one message.
	eventBatch = 256
	// progressPace is how often a watcher with few events gets its current position, so that it can resume from there.
	progressPace = 10 * time.Second
)

// WatchEvents streams the changes that this replica has applied, once and in order. A watcher that is too slow, or
// reconnects too late, gets an error: then it must read the state again, and watch from the index of that answer.
func (s *Service) WatchEvents(req *v1.WatchEventsRequest, stream grpc.ServerStreamingServer[v1.WatchEventsResponse]) error {
	w := watcher{service: s, stream: stream, tenant: call.Of(stream.Context()).Tenant}
	for _, topic := range req.GetTopics() {
		if !slices.Contains(eventTopics, topic) {
			return call.Bad("topics", "there is no topic %.60q: they are %s", topic, strings.Join(eventTopics, ", "))
		}
		w.topics = append(w.topics, event.Topic(topic))
	}
	if err := w.start(req); err != nil {
		return err
	}
	// The watcher's index is not passed on as the state's.
	header := metadata.Pairs(status.KeyIndex, strconv.FormatUint(min(w.index, s.state.View().Index()), 10))
	if err := stream.SendHeader(header); err != nil {
		return err
	}
	return w.run()
}

// watcher is one stream of events, and its position.
type watcher struct {
	service  *Service
	stream   grpc.ServerStreamingServer[v1.WatchEventsResponse]
	tenant   string
	topics   []event.Topic
	index    uint64
	position int
}

func (w *watcher) start(req *v1.WatchEventsRequest) error {
	switch {
	case req.GetCursor() != "":
		at, ok := cursor.ParseEvent(req.GetCursor())
		if !ok {
			return call.Bad("cursor", "%.60q is not a cursor: send the id of the last event unchanged", req.GetCursor())
		}
		w.index, w.position = at.Index, at.Position
	case req.SinceIndex != nil:
		w.index, w.position = req.GetSinceIndex(), cursor.All
	default:
		v, err := w.service.state.Read(w.stream.Context())
		if err != nil {
			return err
		}
		w.index, w.position = v.Index(), cursor.All
	}
	return w.notOfTheFuture()
}

// notOfTheFuture refuses an index that the cluster has not reached: it belongs to another cluster, or to this one before it
// was restored, and a watcher that waits for it would miss everything until then. While the newest index is unknown, it
// waits: this replica may lag.
func (w *watcher) notOfTheFuture() error {
	ctx := w.stream.Context()
	if w.index <= w.service.state.View().Index() || call.Of(ctx).Stale {
		return nil
	}
	v, err := w.service.state.Read(ctx)
	if err != nil || w.index <= v.Index() {
		return nil
	}
	return call.Errorf(codes.FailedPrecondition,
		"this cluster has not reached index %d, its newest is %d: read the state again, and watch from the index of that answer", w.index, v.Index())
}

func (w *watcher) run() error {
	log, ctx := &w.service.log, w.stream.Context()
	if w.index == 0 {
		w.index, w.position = log.oldest()
	}
	number, ok := log.after(w.index, w.position)
	if !ok {
		return w.gone()
	}
	ticker := time.NewTicker(progressPace)
	defer ticker.Stop()
	told := w.cursor()
	buf := make([]pastEvent, eventBatch)
	for {
		n, ok := log.read(number, buf)
		if !ok {
			return w.gone()
		}
		number += uint64(n)
		if events := w.wanted(w.service.state.View(), buf[:n]); len(events) > 0 {
			told = w.cursor()
			if err := w.stream.Send(&v1.WatchEventsResponse{Events: events, Cursor: told}); err != nil {
				return err
			}
		}
		if n == len(buf) {
			continue
		}
		select {
		case <-log.more(number):
		case <-ticker.C:
			if told != w.cursor() {
				told = w.cursor()
				if err := w.stream.Send(&v1.WatchEventsResponse{Cursor: told}); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gone returns the error for events that are missing here. Another replica may have them, unless this one leads: then
// the client should ask this one.
func (w *watcher) gone() error {
	if !w.service.state.IsLeader() {
		return call.NotSent("this coordinator does not have the events since index %d", w.index)
	}
	return call.Errorf(codes.FailedPrecondition,
		"events since index %d are no longer remembered: read the state again, and watch from the index of that answer", w.index)
}

// wanted selects and formats the events that this watcher asked for and may see.
func (w *watcher) wanted(v *fsm.View, events []pastEvent) []*v1.Event {
	var out []*v1.Event
	for i := range events {
		e := &events[i]
		// A watcher may be ahead of this replica if it watched a replica that has applied more.
		if e.Index < w.index || e.Index == w.index && e.Pos <= w.position {
			continue
		}
		w.index, w.position = e.Index, e.Pos
		if e.Tenant != "" && e.Tenant != w.tenant || len(w.topics) > 0 && !slices.Contains(w.topics, e.Topic) {
			continue
		}
		shown := &v1.Event{
			Index: e.Index, Position: int32(e.Pos), Cursor: w.cursor(), Topic: string(e.Topic), Time: call.Time(e.time),
			Attempt: int32(e.Attempt), From: e.From, To: e.To, Stopping: e.Stop, Queue: e.Queue, Nodes: e.Nodes,
			NodeFrom: e.NodeFrom, NodeTo: e.NodeTo, Granted: e.Granted, Name: e.Name, Transfer: e.Transfer,
		}
		if e.Job != 0 {
			shown.JobId = e.Job.String()
		}
		if e.Topic == event.TopicJob {
			j, _ := v.Find(e.Job)
			shown.StatusFrom, shown.StatusTo = jobview.StatusIn(j, e.From), jobview.StatusIn(j, e.To)
		}
		if e.Checkpoint != 0 {
			shown.CheckpointId = e.Checkpoint.String()
		}
		out = append(out, shown)
	}
	return out
}

func (w *watcher) cursor() string { return cursor.Event{Index: w.index, Position: w.position}.String() }
