package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// notNumbers matches Python's texts for numbers that JSON does not have.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// PlainJSON returns a line of metrics as a standard JSON object, or nil. NaN and infinite values become null, and so do
// numbers that no double holds: losses do become NaN, and users must see that line.
func PlainJSON(line []byte) []byte {
	if len(line) == 0 || line[0] != '{' {
		return nil
	}
	if !json.Valid(line) {
		line = notNumbers.ReplaceAll(line, []byte("null"))
	}
	if !json.Valid(line) || !utf8.Valid(line) {
		return nil
	}
	return Finite(line)
}

// maxGarbage limits how much of a line that is not a JSON object is shown.
const maxGarbage = 4 << 10

// MetricsText returns a line of metrics for readers: a standard JSON object, or the unchanged text. long: the line was
// truncated. The gateway turns text that is not a JSON object into {"line": "..."}.
func MetricsText(line []byte, long bool) string {
	if !long {
		if plain := PlainJSON(line); plain != nil {
			return string(plain)
		}
	}
	cut := line[:min(len(line), maxGarbage)]
	text := string(bytes.ToValidUTF8(cut, []byte("\uFFFD")))
	if long || len(cut) < len(line) {
		text += " ... (the line is longer)"
	}
	return text
}

// MetricsLimit returns the last line for metrics that exceed the size limit.
func MetricsLimit(bytes int64) string {
	return fmt.Sprintf("mind: the task's metrics are longer than %d MiB: the rest is not read (metrics_bytes of the agent)", bytes>>20)
}
