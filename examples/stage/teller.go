package stage

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Teller prints the story, each line with the seconds since the beginning. On a terminal the next line overwrites a
// live line. Elsewhere live lines are printed at most once in livePause.
type Teller struct {
	mu       sync.Mutex
	w        io.Writer
	began    time.Time
	terminal bool
	live     bool // the cursor is on a live line
	lastLive time.Time
}

// Where nothing is overwritten there must not be many live lines.
const livePause = 2 * time.Second

// NewTeller begins a story.
func NewTeller(w *os.File) *Teller {
	_, err := unix.IoctlGetTermios(int(w.Fd()), unix.TCGETS)
	return &Teller{w: w, began: time.Now(), terminal: err == nil}
}

// Title prints the title of a chapter.
func (t *Teller) Title(text string) {
	t.Write(fmt.Sprintf("\n%s\n", text))
}

// Say prints a line.
func (t *Teller) Say(format string, args ...any) {
	t.Write(fmt.Sprintf("  %5.1fs  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...)))
}

// Write prints a text as it is.
func (t *Teller) Write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live {
		fmt.Fprint(t.w, "\r\x1b[K")
		t.live = false
	}
	fmt.Fprint(t.w, text)
}

// Now prints a live line, which shows the current state.
func (t *Teller) Now(format string, args ...any) {
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

// Told is how long the story has gone on.
func (t *Teller) Told() time.Duration { return time.Since(t.began) }

// Took is a time as a story tells it.
func Took(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
