package gateway

import (
	"context"
	"fmt"
	"math"
	"strconv"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"google.golang.org/grpc"
)

func streamEvents(x *exchange) error {
	query := x.r.URL.Query()
	request := &v1.WatchEventsRequest{Topics: query["topic"]}
	if raw := query.Get("since_index"); raw != "" {
		since, err := strconv.ParseUint(raw, 10, 64)
		if err != nil || since > math.MaxInt64 {
			return invalid("since_index", fmt.Sprintf("must be a state index, as X-Mind-Index tells, not %q", printable(raw)))
		}
		request.SinceIndex = &since
	}
	var err error
	if request.Cursor, err = x.lastEventID(); err != nil {
		return err
	}
	return relay(x, feed[v1.WatchEventsResponse]{
		open: func(ctx context.Context, cursor string) (grpc.ServerStreamingClient[v1.WatchEventsResponse], error) {
			if cursor != "" {
				request.Cursor = cursor
			}
			return x.server.events.WatchEvents(ctx, request)
		},
		cursor: (*v1.WatchEventsResponse).GetCursor,
		// Without an event or a cursor to go on from, a stream that breaks goes on where it was found to begin.
		begin: func(index uint64) string { return strconv.FormatUint(index, 10) + "." + strconv.Itoa(math.MaxInt32) },
		frames: func(b []byte, m *v1.WatchEventsResponse) []byte {
			for _, e := range m.GetEvents() {
				b = appendID(b, e.GetCursor())
				b = append(b, "event: "...)
				b = append(b, e.GetTopic()...)
				b = append(b, "\ndata: "...)
				b = appendMessage(b, e)
				b = append(b, "\n\n"...)
			}
			if len(m.GetEvents()) == 0 {
				// An id without data moves the place to go on from, and no event is seen.
				b = append(appendID(b, m.GetCursor()), '\n')
			}
			return b
		},
	})
}
