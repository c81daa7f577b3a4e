package gatewaytest

import (
	"bytes"
	"sync"
)

// Log is a log that several goroutines write to.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Bytes returns a copy of the text so far.
func (l *Log) Bytes() []byte { return []byte(l.String()) }
