package gateway

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/wire"
	"google.golang.org/grpc"
)

func streamEvents(x *exchange) error {
	query := x.r.URL.Query()
	request := &v1.WatchEventsRequest{Topics: query["topic"]}
	if raw := query.Get("since_index"); raw != "" {
		since, err := strconv.ParseUint(raw, 10, 64)
		if err != nil || since > math.MaxInt64 {
			return invalid("since_index", fmt.Sprintf("must be a state index, as X-Mind-Index tells, not %q", wire.Printable(raw)))
		}
		request.SinceIndex = &since
	}
	from, err := x.beginning()
	if err != nil {
		return err
	}
	if from == "" && request.SinceIndex != nil {
		from = behind(request.GetSinceIndex())
	}
	s := eventSubject(x, feed[v1.WatchEventsResponse]{
		open: func(ctx context.Context, _ bool, cursor string) (grpc.ServerStreamingClient[v1.WatchEventsResponse], error) {
			return x.server.events.WatchEvents(ctx, &v1.WatchEventsRequest{Topics: request.GetTopics(), Cursor: cursor})
		},
		cursor: (*v1.WatchEventsResponse).GetCursor,
		// Without an event or a cursor to go on from, a stream that breaks goes on where it was found to begin.
		begin: behind,
		piece: eventPiece,
	})
	topics := slices.Sorted(slices.Values(request.GetTopics()))
	s.Key = subjectKey("events", append([]string{x.caller.Tenant, x.stale}, slices.Compact(topics)...)...)
	// From now on: what "now" is, a coordinator says to each watcher by itself.
	s.Opening = x.requestID + randomID()
	return relay(x, s, from)
}

// behind is the cursor behind all events of an index.
func behind(index uint64) string { return cursor.Event{Index: index, Position: cursor.All}.String() }

func eventPiece(m *v1.WatchEventsResponse) fanout.Piece {
	if len(m.GetEvents()) == 0 {
		return placePiece(m.GetCursor())
	}
	var p fanout.Piece
	for _, e := range m.GetEvents() {
		begin := len(p.Frames)
		b := appendID(p.Frames, e.GetCursor())
		mark := eventMark(e.GetCursor())
		mark.IDLen = len(b) - begin
		b = append(b, "event: "...)
		b = append(b, e.GetTopic()...)
		b = append(b, "\ndata: "...)
		b = wire.Append(b, e, true) // callers of different permissions share it
		p.Frames = append(b, "\n\n"...)
		mark.End = len(p.Frames)
		p.Marks = append(p.Marks, mark)
	}
	return p
}
