package stream

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/fanout"
)

// Source makes the subjects that callers watch through the hub.
type Source struct {
	Jobs   v1.JobServiceClient
	Events v1.EventServiceClient
	// Longest is how long a stream of a coordinator is read before it is reopened after its last entry; 0: no limit.
	Longest time.Duration
}

// Logs returns the log of a job as a subject. The call has the caller and the consistency of the start; callers that
// join read through the call of the first one.
func (s *Source) Logs(call client.Call, request *v1.StreamJobLogsRequest) fanout.Subject {
	tailed := request.Tail != nil
	subject := logSubject(call, s.Longest, feed[v1.StreamJobLogsResponse]{
		open: func(ctx context.Context, opening bool, cursor string) (grpc.ServerStreamingClient[v1.StreamJobLogsResponse], error) {
			r := proto.CloneOf(request)
			if r.Cursor = cursor; cursor != "" || !opening {
				r.Tail = nil // the tail is only for the start
			}
			return s.Jobs.StreamJobLogs(ctx, r)
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
		subject.Opening = strconv.Itoa(int(request.GetTail()))
	}
	if request.Follow == nil || *request.Follow {
		subject.Key = subjectKey("logs", call.Tenant, request.GetJobId(), optional(request.Rank), strconv.Itoa(int(request.GetAttempt())), when(request.GetSince()), call.Consistency)
	}
	return subject
}

// Metrics returns the metrics of a job as a subject.
func (s *Source) Metrics(call client.Call, request *v1.StreamJobMetricsRequest) fanout.Subject {
	subject := logSubject(call, s.Longest, feed[v1.StreamJobMetricsResponse]{
		open: func(ctx context.Context, _ bool, cursor string) (grpc.ServerStreamingClient[v1.StreamJobMetricsResponse], error) {
			r := proto.CloneOf(request)
			r.Cursor = cursor
			return s.Jobs.StreamJobMetrics(ctx, r)
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
		subject.Key = subjectKey("metrics", call.Tenant, request.GetJobId(), call.Consistency)
	}
	return subject
}

// Changes returns the events of the cluster on some topics as a subject; without topics, on all.
func (s *Source) Changes(call client.Call, topics []string) fanout.Subject {
	subject := eventSubject(call, s.Longest, feed[v1.WatchEventsResponse]{
		open: func(ctx context.Context, _ bool, cursor string) (grpc.ServerStreamingClient[v1.WatchEventsResponse], error) {
			return s.Events.WatchEvents(ctx, &v1.WatchEventsRequest{Topics: topics, Cursor: cursor})
		},
		cursor: (*v1.WatchEventsResponse).GetCursor,
		// Without an event or a cursor to resume from, a stream that breaks resumes where it started.
		begin: Behind,
		piece: eventPiece,
	})
	sorted := slices.Compact(slices.Sorted(slices.Values(topics)))
	subject.Key = subjectKey("events", append([]string{call.Tenant, call.Consistency}, sorted...)...)
	// Without a cursor the stream starts at the present, which a coordinator determines for each watcher.
	subject.Opening = call.RequestID + rand.Text()
	return subject
}

// Behind returns the cursor after all events of an index.
func Behind(index uint64) string { return cursor.Event{Index: index, Position: cursor.All}.String() }

// GiveUp is how long a lost upstream is retried.
const GiveUp = 5 * time.Minute

// follow returns a Follow function that reads a feed for the caller that opens it, and for all callers that join.
func follow[M any](call client.Call, longest time.Duration, f feed[M]) func(context.Context, bool, string, chan<- fanout.News) {
	f.longest = longest
	return func(ctx context.Context, opening bool, cursor string, out chan<- fanout.News) {
		pump(client.WithCall(ctx, call), f, opening, cursor, GiveUp, out)
	}
}

// logSubject returns a subject with cursors of logs.
func logSubject[M any](call client.Call, longest time.Duration, f feed[M]) fanout.Subject {
	return fanout.Subject{
		Follow: follow(call, longest, f),
		Place: func(text string) (fanout.Place, bool) {
			c, err := cursor.ParseLog(text)
			return fanout.Place{Epoch: uint64(c.Attempt), Offsets: c.Offsets}, err == nil
		},
		Cursor: func(p fanout.Place) string { return cursor.Log{Attempt: uint32(p.Epoch), Offsets: p.Offsets}.String() },
	}
}

// eventSubject returns a subject with cursors of events. Offsets count from 1: at offset 0 no event was seen.
func eventSubject[M any](call client.Call, longest time.Duration, f feed[M]) fanout.Subject {
	return fanout.Subject{
		Follow: follow(call, longest, f),
		Place: func(text string) (fanout.Place, bool) {
			m := eventMark(text)
			return fanout.Place{Epoch: m.Epoch, Offsets: map[uint16]uint64{0: m.Offset}}, m.Epoch > 0
		},
		Cursor: func(p fanout.Place) string {
			return cursor.Event{Index: p.Epoch, Position: int(p.Offsets[0]) - 1}.String()
		},
	}
}

// subjectKey makes the key of a subject. The tenant is part of every key, so tenants never share.
func subjectKey(kind string, parts ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	for _, p := range parts {
		// A length before each part keeps two parts from looking like another pair.
		b.WriteString("\x00" + strconv.Itoa(len(p)) + ":" + p)
	}
	return b.String()
}

func optional(n *int32) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(*n))
}

func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return strconv.FormatInt(t.GetSeconds(), 10) + "." + strconv.Itoa(int(t.GetNanos()))
}
