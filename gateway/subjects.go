package gateway

import (
	"context"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What callers watch, as the hub that they share it by knows it.

// subjectKey names what is told. A tenant is part of every key: nobody shares with another tenant.
func subjectKey(kind string, parts ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	for _, p := range parts {
		// With its length before it no part can pass for two.
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

// follow reads a feed for the caller that opens it, and for all who join it.
func follow[M any](x *exchange, f feed[M]) func(context.Context, bool, string, chan<- fanout.News) {
	call := client.Call{Tenant: x.caller.Tenant, User: x.caller.User, RequestID: x.requestID, Consistency: x.stale}
	f.longest = x.server.config.Timeouts.Stream
	return func(ctx context.Context, opening bool, cursor string, out chan<- fanout.News) {
		pump(client.WithCall(ctx, call), f, opening, cursor, sseGiveUp, out)
	}
}

// logSubject is one whose cursors are those of logs.
func logSubject[M any](x *exchange, f feed[M]) fanout.Subject {
	return fanout.Subject{
		Follow: follow(x, f),
		Place: func(text string) (fanout.Place, bool) {
			c, err := cursor.ParseLog(text)
			return fanout.Place{Epoch: uint64(c.Attempt), Offsets: c.Offsets}, err == nil
		},
		Cursor: func(p fanout.Place) string { return cursor.Log{Attempt: uint32(p.Epoch), Offsets: p.Offsets}.String() },
	}
}

// eventSubject is one whose cursors are those of events. Offsets are counted from 1: at offset 0 nothing was seen.
func eventSubject[M any](x *exchange, f feed[M]) fanout.Subject {
	return fanout.Subject{
		Follow: follow(x, f),
		Place: func(text string) (fanout.Place, bool) {
			m := eventMark(text)
			return fanout.Place{Epoch: m.Epoch, Offsets: map[uint16]uint64{0: m.Offset}}, m.Epoch > 0
		},
		Cursor: func(p fanout.Place) string {
			return cursor.Event{Index: p.Epoch, Position: int(p.Offsets[0]) - 1}.String()
		},
	}
}

func logMark(text string, rank int32) fanout.Mark {
	attempt, offset, ok := cursor.At(text, uint16(rank))
	if !ok {
		return fanout.Mark{}
	}
	return fanout.Mark{Epoch: uint64(attempt), Part: uint16(rank), Offset: offset}
}

func eventMark(text string) fanout.Mark {
	at, ok := cursor.ParseEvent(text)
	if !ok {
		return fanout.Mark{}
	}
	return fanout.Mark{Epoch: at.Index, Offset: uint64(at.Position) + 1}
}

// placePiece is an id without an event: it moves the place to go on from, and no event is seen.
func placePiece(text string) fanout.Piece {
	if text == "" {
		return fanout.Piece{}
	}
	m := eventMark(text)
	b := appendID(nil, text)
	m.IDLen = len(b)
	b = append(b, '\n')
	m.End = len(b)
	return fanout.Piece{Frames: b, Marks: []fanout.Mark{m}}
}

func logPiece(m *v1.StreamJobLogsResponse, tailed bool) fanout.Piece {
	entries := m.GetEntries()
	if len(entries) == 0 {
		return beginning(m.GetCursor(), tailed)
	}
	p := fanout.Piece{Marks: make([]fanout.Mark, len(entries))}
	for i, entry := range entries {
		begin := len(p.Frames)
		p.Frames = appendID(p.Frames, entry.GetCursor())
		mark := logMark(entry.GetCursor(), entry.GetRank())
		mark.IDLen = len(p.Frames) - begin
		p.Frames = appendLogEvent(p.Frames, entry)
		mark.End = len(p.Frames)
		p.Marks[i] = mark
	}
	return p
}

// beginning is where an attempt begins. With a tail that is told as an id without an event: the caller may go on after the
// tail before its first line has come.
func beginning(text string, told bool) fanout.Piece {
	if text == "" {
		return fanout.Piece{}
	}
	m := logMark(text, 0)
	// What was seen of it is not looked at: nothing but the beginning of an attempt moves a stream without a line.
	m.Offset = 0
	var b []byte
	if told {
		b = appendID(b, text)
		m.IDLen = len(b)
		b = append(b, '\n')
	}
	m.End = len(b)
	return fanout.Piece{Frames: b, Marks: []fanout.Mark{m}}
}

func metricsPiece(m *v1.StreamJobMetricsResponse) fanout.Piece {
	entries := m.GetEntries()
	if len(entries) == 0 {
		return beginning(m.GetCursor(), false)
	}
	p := fanout.Piece{Marks: make([]fanout.Mark, len(entries))}
	for i, entry := range entries {
		begin := len(p.Frames)
		p.Frames = appendID(p.Frames, entry.GetCursor())
		mark := logMark(entry.GetCursor(), 0)
		mark.IDLen = len(p.Frames) - begin
		p.Frames = appendMetricsEvent(p.Frames, entry)
		mark.End = len(p.Frames)
		p.Marks[i] = mark
	}
	return p
}
