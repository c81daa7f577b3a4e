package gossip

import (
	"context"
	"log/slog"
	"strings"
)

// The line with which memberlist says that its own probe of a member failed. It
// tells its delegates of joins and deaths, but not of suspicions, so this line
// is the only word of them there is; a test holds that it still comes.
const (
	suspectPrefix = "[INFO] memberlist: Suspect "
	suspectSuffix = " has failed, no acks received"
)

// logLines is a writer of memberlist's log. All of it is debugging to us: what
// matters to an operator, a member's change of state, the view logs itself.
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
