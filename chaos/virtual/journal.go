package virtual

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// journalLines limits the kept lines.
const journalLines = 20_000

// journal keeps the newest log lines of the components, and notes about the faults.
type journal struct {
	mu    sync.Mutex
	lines []string
	next  int
	level slog.Level
}

func newJournal() *journal { return &journal{lines: make([]string, 0, 1024), level: slog.LevelInfo} }

func (j *journal) note(who, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := time.Now().UTC().Format("02 15:04:05.000 ") + who + ": " + what
	if len(j.lines) < journalLines {
		j.lines = append(j.lines, line)
		return
	}
	j.lines[j.next] = line
	j.next = (j.next + 1) % journalLines
}

func (j *journal) last(n int) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := append(append([]string(nil), j.lines[j.next:]...), j.lines[:j.next]...)
	return all[max(0, len(all)-n):]
}

// of returns a handler for the log of one component.
func (j *journal) of(who string) slog.Handler { return &handler{journal: j, who: who} }

type handler struct {
	journal *journal
	who     string
	with    string
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.journal.level }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Level.String())
	b.WriteString(" ")
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	b.WriteString(h.with)
	h.journal.note(h.who, b.String())
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	for _, a := range attrs {
		if a.Key != "coordinator" && a.Key != "replica" && a.Key != "node" && a.Key != "component" && a.Key != "member" {
			next.with += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
	}
	return &next
}

func (h *handler) WithGroup(string) slog.Handler { return h }
