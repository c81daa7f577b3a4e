package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/wire"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func streamLogs(x *exchange) error {
	request, err := logsRequest(x.r.URL.Query(), time.Now())
	if err != nil {
		return err
	}
	request.JobId = id(x)
	cursor, err := x.beginning()
	if err != nil {
		return err
	}
	tailed := request.Tail != nil
	s := logSubject(x, feed[v1.StreamJobLogsResponse]{
		open: func(ctx context.Context, opening bool, cursor string) (grpc.ServerStreamingClient[v1.StreamJobLogsResponse], error) {
			r := proto.CloneOf(request)
			if r.Cursor = cursor; cursor != "" || !opening {
				r.Tail = nil // it is for the beginning
			}
			return x.server.jobs.StreamJobLogs(ctx, r)
		},
		cursor: func(m *v1.StreamJobLogsResponse) string {
			if n := len(m.GetEntries()); n > 0 {
				return m.GetEntries()[n-1].GetCursor()
			}
			return m.GetCursor()
		},
		piece: func(m *v1.StreamJobLogsResponse) fanout.Piece { return logPiece(m, tailed) },
	})
	if tailed {
		s.Opening = strconv.Itoa(int(request.GetTail()))
	}
	if request.Follow == nil || *request.Follow {
		s.Key = subjectKey("logs", x.caller.Tenant, request.GetJobId(), optional(request.Rank), strconv.Itoa(int(request.GetAttempt())), when(request.GetSince()), x.stale)
	}
	return relay(x, s, cursor)
}

func appendLogEvent(b []byte, entry *v1.LogEntry) []byte {
	b = append(b, "event: log\ndata: {\"level\":"...)
	b = wire.AppendString(b, entry.GetLevel())
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, entry.GetMessage())
	b = append(b, `,"timestamp":`...)
	if ts := entry.GetTimestamp(); ts != nil {
		b = wire.AppendTimestamp(b, ts.ProtoReflect())
	} else {
		b = append(b, `""`...)
	}
	b = append(b, `,"rank":`...)
	b = strconv.AppendInt(b, int64(entry.GetRank()), 10)
	b = append(b, `,"stream":`...)
	b = wire.AppendString(b, entry.GetStream())
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(entry.GetAttempt()), 10)
	return append(b, "}\n\n"...)
}

func streamMetrics(x *exchange) error {
	request := &v1.StreamJobMetricsRequest{JobId: id(x)}
	var faults []wire.Fault
	request.Follow, faults = wire.Bool(x.r.URL.Query(), "follow", nil)
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	cursor, err := x.beginning()
	if err != nil {
		return err
	}
	s := logSubject(x, feed[v1.StreamJobMetricsResponse]{
		open: func(ctx context.Context, _ bool, cursor string) (grpc.ServerStreamingClient[v1.StreamJobMetricsResponse], error) {
			r := proto.CloneOf(request)
			r.Cursor = cursor
			return x.server.jobs.StreamJobMetrics(ctx, r)
		},
		cursor: func(m *v1.StreamJobMetricsResponse) string {
			if n := len(m.GetEntries()); n > 0 {
				return m.GetEntries()[n-1].GetCursor()
			}
			return m.GetCursor()
		},
		piece: metricsPiece,
	})
	if request.Follow == nil || *request.Follow {
		s.Key = subjectKey("metrics", x.caller.Tenant, request.GetJobId(), x.stale)
	}
	return relay(x, s, cursor)
}

// appendMetricsEvent hands the line of the workload on as it is, unless it is
// no JSON object on one line: that is handed on as {"line": "..."}.
func appendMetricsEvent(b []byte, entry *v1.MetricsEntry) []byte {
	b = append(b, "event: metrics\ndata: "...)
	line := strings.TrimSpace(entry.GetJson())
	if !strings.HasPrefix(line, "{") || strings.ContainsAny(line, "\n\r") || !json.Valid([]byte(line)) {
		b = append(b, `{"line":`...)
		b = wire.AppendString(b, line)
		b = append(b, '}')
	} else {
		b = append(b, line...)
	}
	return append(b, "\n\n"...)
}

func appendID(b []byte, cursor string) []byte {
	if cursor == "" || strings.ContainsAny(cursor, "\n\r\x00") {
		return b
	}
	b = append(b, "id: "...)
	b = append(b, cursor...)
	return append(b, '\n')
}

// beginning is where a stream begins, and of which state: without a leader, one coordinator's may have to do.
func (x *exchange) beginning() (cursor string, err error) {
	if x.stale, err = x.consistency(); err != nil {
		return "", err
	}
	return x.lastEventID()
}

// lastEventID is where the caller wants to go on: EventSource sends the
// header, others may use the query.
func (x *exchange) lastEventID() (string, error) {
	cursor := x.r.Header.Get(headerLastEventID)
	if cursor == "" {
		cursor = x.r.URL.Query().Get("last_event_id")
	}
	if len(cursor) > 4096 {
		return "", invalid("last_event_id", "is longer than 4096 bytes")
	}
	return cursor, nil
}

func logsRequest(query url.Values, now time.Time) (*v1.StreamJobLogsRequest, error) {
	request := &v1.StreamJobLogsRequest{}
	var faults []wire.Fault
	number := func(name string) *int32 {
		if query.Get(name) == "" {
			return nil
		}
		var n int32
		n, faults = wire.Int(query, name, 0, math.MaxInt32, faults)
		return &n
	}
	request.Tail = number("tail")
	request.Rank = number("rank")
	if attempt := number("attempt"); attempt != nil {
		request.Attempt = *attempt
	}
	request.Follow, faults = wire.Bool(query, "follow", faults)
	if raw := query.Get("since"); raw != "" {
		since, ok := wire.Since(raw, now)
		if !ok {
			faults = append(faults, wire.Fault{Field: "since", Message: fmt.Sprintf(
				"must be a time in RFC 3339, a number of seconds back from now, or a duration such as 10m, not %q", wire.Printable(raw))})
		} else {
			request.Since = timestamppb.New(since)
		}
	}
	if len(faults) > 0 {
		return nil, invalidBody(faults)
	}
	return request, nil
}
