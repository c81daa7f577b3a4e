package flow

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// shownResult is how much of a result is shown.
const shownResult = 100

// progress prints what happens, one line each.
type progress struct {
	to     io.Writer
	events bool
}

func (p *progress) show(h rehearse.Happening) {
	text := ""
	switch h.What {
	case rehearse.Began:
		if text = h.Kind; h.Attempt > 1 {
			text = fmt.Sprintf("%s, attempt %d", h.Kind, h.Attempt)
		}
	case rehearse.Ended:
		if h.Value == nil {
			return
		}
		text = "= " + clipped(h.Value)
	case rehearse.Failed:
		text = "failed: " + h.Err.Error()
	case rehearse.Retried:
		text = "failed, and is tried again: " + h.Err.Error()
	case rehearse.Emitted:
		if !p.events {
			return
		}
		text = "emits " + h.Name + " " + clipped(h.Value)
	case rehearse.Escalated:
		text = "nobody answered in time: " + h.Name + " is asked"
	}
	fmt.Fprintf(p.to, "%11s  %s%s: %s\n", virtual(h.At), strings.Repeat("  ", h.Level), h.Step, render.Printable(text))
}

// virtual formats the time since the begin.
func virtual(d time.Duration) string {
	const day = 24 * time.Hour
	if days := d / day; days > 0 {
		if d -= days * day; d == 0 {
			return fmt.Sprintf("+%dd", days)
		}
		return fmt.Sprintf("+%dd%s", days, short(d))
	}
	return "+" + short(d)
}

// short leaves out the zeros at the end: 1h0m0s is 1h.
func short(d time.Duration) string {
	text := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zeros) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func clipped(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if runes := []rune(string(text)); len(runes) > shownResult {
		return string(runes[:shownResult]) + "..."
	}
	return string(text)
}
