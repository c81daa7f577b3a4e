package stream

import (
	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/wire"
)

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

// placePiece is an id without an event: it moves the place to resume from.
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
		p.Frames = AppendLog(p.Frames, entry)
		mark.End = len(p.Frames)
		p.Marks[i] = mark
	}
	return p
}

// beginning marks the start of an attempt. With a tail it is sent as an id without an event, so that the caller can resume
// after the tail before the first line has come.
func beginning(text string, told bool) fanout.Piece {
	if text == "" {
		return fanout.Piece{}
	}
	m := logMark(text, 0)
	// The content is not checked: only the start of an attempt moves a stream without a line.
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
