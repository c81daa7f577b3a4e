// Package hostlog makes loggers for the libraries of HashiCorp, which write to slog with lower levels and few
// repetitions.
package hostlog

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// repeatAfter is how long a warning is not repeated. During an outage raft warns of each heartbeat that fails.
const repeatAfter = 5 * time.Second

// bridge is an hclog.Logger that writes to slog. It logs raft's information as debug messages. Raft's errors, most of
// which are about peers that cannot be reached, it logs as warnings: a node itself reports the errors that stop it.
type bridge struct {
	log  *slog.Logger
	name string
	args []any
	said *said
}

// said has the time at which each warning was last written.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// New returns a logger for one library.
func New(l *slog.Logger) hclog.Logger {
	return &bridge{log: l, said: &said{last: map[string]time.Time{}}}
}

func (s *said) recently(msg string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last, ok := s.last[msg]; ok && now.Sub(last) < repeatAfter {
		return true
	}
	s.last[msg] = now
	return false
}

// Log implements hclog.Logger, as do the methods below.
func (b *bridge) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	if level >= hclog.Warn {
		to = slog.LevelWarn
	}
	if !b.log.Enabled(context.Background(), to) {
		return
	}
	if to == slog.LevelWarn && b.said.recently(msg) {
		return
	}
	attrs := make([]any, 0, len(args))
	for _, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		attrs = append(attrs, a)
	}
	b.log.Log(context.Background(), to, msg, attrs...)
}

func (b *bridge) Trace(msg string, args ...any) { b.Log(hclog.Trace, msg, args...) }
func (b *bridge) Debug(msg string, args ...any) { b.Log(hclog.Debug, msg, args...) }
func (b *bridge) Info(msg string, args ...any)  { b.Log(hclog.Info, msg, args...) }
func (b *bridge) Warn(msg string, args ...any)  { b.Log(hclog.Warn, msg, args...) }
func (b *bridge) Error(msg string, args ...any) { b.Log(hclog.Error, msg, args...) }

func (b *bridge) enabled(l slog.Level) bool { return b.log.Enabled(context.Background(), l) }

func (b *bridge) IsTrace() bool { return b.enabled(slog.LevelDebug) }
func (b *bridge) IsDebug() bool { return b.enabled(slog.LevelDebug) }
func (b *bridge) IsInfo() bool  { return b.enabled(slog.LevelDebug) }
func (b *bridge) IsWarn() bool  { return b.enabled(slog.LevelWarn) }
func (b *bridge) IsError() bool { return b.enabled(slog.LevelWarn) }

func (b *bridge) ImpliedArgs() []any { return b.args }

func (b *bridge) With(args ...any) hclog.Logger {
	return &bridge{log: b.log.With(args...), name: b.name, args: append(b.args[:len(b.args):len(b.args)], args...), said: b.said}
}

func (b *bridge) Name() string { return b.name }

func (b *bridge) Named(name string) hclog.Logger {
	if b.name != "" {
		name = b.name + "." + name
	}
	return b.ResetNamed(name)
}

func (b *bridge) ResetNamed(name string) hclog.Logger {
	return &bridge{log: b.log, name: name, args: b.args, said: b.said}
}

func (b *bridge) SetLevel(hclog.Level) {}

func (b *bridge) GetLevel() hclog.Level {
	if b.IsDebug() {
		return hclog.Debug
	}
	return hclog.Warn
}

func (b *bridge) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(b.log.Handler(), slog.LevelDebug)
}

func (b *bridge) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return b.StandardLogger(o).Writer()
}
