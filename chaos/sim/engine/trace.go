package engine

import (
	"fmt"
	"strings"
	"time"
)

const remembered = 60

// Trace records the events: a hash of all of them, and the last ones as text.
type Trace struct {
	hash  uint64
	ring  [remembered]line
	count int
}

type line struct {
	at         int64
	what, a, b string
	x, y       uint64
}

// The constants of FNV-1a.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

func newTrace() Trace { return Trace{hash: offset} }

// Hash returns the hash of all events.
func (t *Trace) Hash() uint64 { return t.hash }

// Fold adds values to the hash.
func (t *Trace) Fold(values ...uint64) {
	for _, v := range values {
		for range 8 {
			t.hash = (t.hash ^ v&0xff) * prime
			v >>= 8
		}
	}
}

func (t *Trace) text(s string) {
	for i := range len(s) {
		t.hash = (t.hash ^ uint64(s[i])) * prime
	}
}

func (t *Trace) note(at int64, what, a, b string, x, y uint64) {
	t.Fold(uint64(at), x, y)
	t.text(what)
	t.text(a)
	t.text(b)
	t.ring[t.count%remembered] = line{at, what, a, b, x, y}
	t.count++
}

// Last returns the newest events, one per line.
func (t *Trace) Last() string {
	var b strings.Builder
	for i := max(0, t.count-remembered); i < t.count; i++ {
		l := t.ring[i%remembered]
		fmt.Fprintf(&b, "%10.3f  %-28s %-4s %-16s %d %d\n", time.Duration(l.at).Seconds(), l.what, l.a, l.b, l.x, l.y)
	}
	return b.String()
}
