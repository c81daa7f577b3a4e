package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// notNumbers are what Python writes for numbers that JSON does not have.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// PlainJSON returns a line of metrics as a JSON object that anybody can read,
// or nil. Losses do become NaN, and then it matters to see it: such values
// become null.
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
	return line
}

// maxGarbage bounds what is shown of a line of metrics that is not a JSON object.
const maxGarbage = 4 << 10

// MetricsText is what readers are given of a line of metrics: a JSON object that anybody can read, or the text as it is, of which
// long says that there was more of it. The gateway makes {"line": "..."} of what is no JSON object.
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

// MetricsLimit is the line at the end of metrics of which more was written than is read.
func MetricsLimit(bytes int64) string {
	return fmt.Sprintf("mind: the task wrote more metrics than the first %d MiB, which are all that is read (metrics_bytes of the agent)", bytes>>20)
}
