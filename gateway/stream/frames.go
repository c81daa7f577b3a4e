package stream

import (
	"encoding/json"
	"strconv"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// AppendLog writes a log line as an event, without its id.
func AppendLog(b []byte, entry *v1.LogEntry) []byte {
	b = append(b, "event: log\ndata: {\"level\":"...)
	b = wire.AppendString(b, entry.GetLevel())
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, entry.GetMessage())
	b = append(b, `,"timestamp":`...)
	if ts := entry.GetTimestamp(); ts != nil {
		b = wire.AppendTimestamp(b, ts.ProtoReflect())
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"rank":`...)
	b = strconv.AppendInt(b, int64(entry.GetRank()), 10)
	b = append(b, `,"stream":`...)
	b = wire.AppendString(b, entry.GetStream())
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(entry.GetAttempt()), 10)
	return append(b, "}\n\n"...)
}

// appendMetricsEvent writes the workload's line unchanged if it is a JSON object on one line; any other text becomes
// {"line": "..."}.
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
