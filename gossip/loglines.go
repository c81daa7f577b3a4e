package gossip

import (
	"context"
	"log/slog"
	"strings"
)

// The log line with which memberlist reports that its own probe of a member failed. It notifies its delegates of joins and
// deaths but not of suspicions, so this line is the only report; a test verifies that it still exists.
const (
	suspectPrefix = "[INFO] memberlist: Suspect "
	suspectSuffix = " has failed, no acks received"
)

// logLines is a writer for memberlist's log. All of it is debug output: the view itself logs what matters to an operator,
// the state changes of members.
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
