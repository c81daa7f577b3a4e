// Package ratelimit counts requests per caller over a sliding minute.
//
// Contract: Take counts one request against several limits at once, each with its own key (a token, a user, a tenant), and
// reports whether all admit it. A request that one limit refuses counts against none.
//
// Guarantees: memory is bounded by the callers of the last two windows. A limit of 0 admits everything and remembers nothing.
//
// Not guaranteed: exactness. The count of the last minute is the count of the current window plus a share of the
// previous one, as if its requests had been evenly spread (the sliding window counter that Cloudflare described in
// 2017, https://blog.cloudflare.com/counting-things-a-lot-of-different-things/). Each gateway counts for itself: N
// gateways admit up to N times as much.
package ratelimit

import (
	"math"
	"sync"
	"time"
)

// Window is the span over which requests are counted.
const Window = time.Minute

// Limiter keeps the counts.
type Limiter struct {
	mu     sync.Mutex
	counts map[key]*count
	swept  int64
}

// Limit is one limit that a request counts against.
type Limit struct {
	// Kind and Key together identify the counter.
	Kind, Key string
	// PerMinute is the number of admitted requests; 0: no limit.
	PerMinute int
}

// Decision is the result of Take. Its numbers describe the limit that is closest to being reached.
type Decision struct {
	Admitted bool
	// Limited: there is a limit; without one the other fields are not set.
	Limited   bool
	Limit     int
	Remaining int
	// Reset is when the whole limit is available again if the caller stops now.
	Reset time.Time
	// RetryAfter is how long a refused caller should wait.
	RetryAfter time.Duration
}

type key struct{ kind, key string }

// count is the number of requests in window number window, and in the previous one.
type count struct {
	window       int64
	now, earlier int
}

// New makes a limiter.
func New() *Limiter { return &Limiter{counts: map[key]*count{}} }

// Take counts a request at a time.
func (l *Limiter) Take(now time.Time, limits ...Limit) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	window := now.UnixNano() / int64(Window)
	into := float64(now.UnixNano()%int64(Window)) / float64(Window)
	l.sweep(window)
	d := Decision{Admitted: true}
	nearest := math.MaxFloat64
	for _, limit := range limits {
		if limit.PerMinute <= 0 {
			continue
		}
		c := l.at(key{limit.Kind, limit.Key}, window)
		used := float64(c.now) + float64(c.earlier)*(1-into)
		left := float64(limit.PerMinute) - used
		if left >= nearest {
			continue
		}
		nearest = left
		d.Limited, d.Limit, d.Remaining = true, limit.PerMinute, max(0, int(left)-1)
		d.Reset = time.Unix(0, (window+2)*int64(Window))
		d.Admitted, d.RetryAfter = true, 0
		if left < 1 {
			d.Admitted, d.Remaining = false, 0
			d.RetryAfter = wait(c, into, limit.PerMinute)
		}
	}
	if d.Admitted {
		for _, limit := range limits {
			if limit.PerMinute > 0 {
				l.counts[key{limit.Kind, limit.Key}].now++
			}
		}
	}
	return d
}

// wait returns how long until one more request fits if no other comes.
func wait(c *count, into float64, limit int) time.Duration {
	room := float64(limit - 1)
	if rest := room - float64(c.now); rest >= 0 && c.earlier > 0 {
		// Within this window: earlier * (1 - at) <= rest.
		at := 1 - rest/float64(c.earlier)
		return time.Duration(math.Ceil(max(0, at-into) * float64(Window)))
	}
	// In the next one: now * (1 - at) <= room.
	at := 1 - room/float64(max(1, c.now))
	return time.Duration(math.Ceil((1 - into + max(0, at)) * float64(Window)))
}

// at brings a count up to the current window.
func (l *Limiter) at(k key, window int64) *count {
	c := l.counts[k]
	if c == nil {
		c = &count{window: window}
		l.counts[k] = c
	}
	switch {
	case c.window == window-1:
		c.earlier, c.now = c.now, 0
	case c.window != window:
		c.earlier, c.now = 0, 0
	}
	c.window = window
	return c
}

// sweep drops, once per window, counters without requests in two windows.
func (l *Limiter) sweep(window int64) {
	if l.swept == window {
		return
	}
	l.swept = window
	for k, c := range l.counts {
		if c.window < window-1 {
			delete(l.counts, k)
		}
	}
}
