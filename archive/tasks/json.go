package tasks

import (
	"encoding/json"
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
