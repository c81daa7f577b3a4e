package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// teller prints the story, each line with the seconds since the beginning. On a terminal the next line overwrites a
// live line. Elsewhere live lines are printed at most once in livePause.
type teller struct {
	mu       sync.Mutex
	w        io.Writer
	began    time.Time
	terminal bool
	live     bool // the cursor is on a live line
	lastLive time.Time
}

// Where nothing is overwritten there must not be many live lines.
const livePause = 2 * time.Second

func newTeller(w *os.File) *teller {
	_, err := unix.IoctlGetTermios(int(w.Fd()), unix.TCGETS)
	return &teller{w: w, began: time.Now(), terminal: err == nil}
}

func (t *teller) title(text string) {
	t.write(fmt.Sprintf("\n%s\n", text))
}

func (t *teller) say(format string, args ...any) {
	t.write(fmt.Sprintf("  %5.1fs  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...)))
}

func (t *teller) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live {
		fmt.Fprint(t.w, "\r\x1b[K")
		t.live = false
	}
	fmt.Fprint(t.w, text)
}

// now prints a live line, which shows the current state.
func (t *teller) now(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("  %5.1fs  %s", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
	switch {
	case t.terminal:
		fmt.Fprint(t.w, "\r\x1b[K"+line)
		t.live = true
	case time.Since(t.lastLive) >= livePause:
		fmt.Fprintln(t.w, line)
		t.lastLive = time.Now()
	}
}

func took(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
