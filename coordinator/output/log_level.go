package output

import "strings"

// levels are the words by which a line may state its level, as loggers of many languages write them.
var levels = []string{"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"}

// levelOf returns the level near the beginning of the line, otherwise INFO for stdout and ERROR for stderr.
func levelOf(line string, stderr bool) string {
	head := line[:min(len(line), 64)]
	for field := range strings.FieldsFuncSeq(head, func(r rune) bool { return r == ' ' || r == '[' || r == ']' || r == ':' || r == '|' || r == '\t' }) {
		for _, level := range levels {
			if field == level {
				return level
			}
		}
	}
	if stderr {
		return "ERROR"
	}
	return "INFO"
}
