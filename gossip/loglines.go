package gossip

import (
	"context"
	"log/slog"
	"strings"
)

// Memberlist logs a line of this form when its own probe of a member failed. It notifies its delegates of joins and
// deaths but not of suspicions, so the line is the only report of them. A test checks that memberlist still logs it.
const (
	suspectPrefix = "[INFO] memberlist: Suspect "
	suspectSuffix = " has failed, no acks received"
)

// logLines is a writer for memberlist's log. All of it is debug output: the view logs the state changes of members,
// which are all that an operator needs.
type logLines struct {
	log       *slog.Logger
	suspected func(name string)
}

func (l *logLines) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if rest, ok := strings.CutPrefix(text, suspectPrefix); ok {
		if name, ok := strings.CutSuffix(rest, suspectSuffix); ok {
			l.suspected(name)
		}
	}
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(text)
	}
	return len(line), nil
}
