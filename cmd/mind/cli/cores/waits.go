package cores

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// waits says what executions wait for. It reads each decision once.
type waits struct {
	c         *rest.Client
	decisions map[string]*decision
}

func newWaits(c *rest.Client) *waits { return &waits{c: c, decisions: map[string]*decision{}} }

// say says what an execution waits for in a step: what, since when, until when, and the command that concerns it.
func (w *waits) say(ctx context.Context, e *execution, a *awaited) string {
	what, command := "", ""
	switch a.Kind {
	case "timer":
		what = "for a time"
	case "job":
		what, command = "for the job "+a.ID, "mind job "+a.ID
	case "execution":
		what, command = "for the execution "+a.ID, "mind execution watch "+a.ID
	case "event":
		what, command = "for the event "+a.ID, "mind execution signal "+e.ID+" "+word(a.ID)
	case "decision":
		what, command = w.decision(ctx, a.ID)
	default:
		what = "for the " + a.Kind + " " + a.ID
	}
	text := a.Step + " waits " + what
	if a.Since != nil {
		text += ", since " + moment(*a.Since)
	}
	if a.Until != nil {
		text += ", until " + moment(*a.Until)
	}
	if command != "" {
		text += ": `" + command + "`"
	}
	return text
}

// decision says who is asked what, and the command that answers.
func (w *waits) decision(ctx context.Context, id string) (what, command string) {
	d, ok := w.decisions[id]
	if !ok {
		// A decision that cannot be read is named all the same.
		var got decision
		if _, err := w.c.Get(ctx, decisionPath(id), nil, &got); err != nil {
			return "for the decision " + id, "mind decision show " + id
		}
		d = &got
		w.decisions[id] = d
	}
	what = "for the decision " + id
	if d.Assignee != "" {
		what += " of " + d.Assignee
	}
	return what + " (" + d.Prompt + ")", d.command()
}

// command is the command that answers a decision, with the answers that it allows.
func (d *decision) command() string {
	text := "mind decision resolve " + d.ID
	switch {
	case given(d.Schema):
		return text + " --data JSON"
	case len(d.Options) == 0:
		return text + " TEXT"
	}
	var ids []string
	for _, o := range d.Options {
		ids = append(ids, word(o.ID))
	}
	return text + " " + strings.Join(ids, "|")
}

// word quotes what a shell would not take as one word.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:/@%+=,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// moment is the time of day, and the day if it is not today.
func moment(t time.Time) string {
	if y, m, d := t.Local().Date(); time.Now().Year() == y && time.Now().Month() == m && time.Now().Day() == d {
		return render.Clock(t)
	}
	return render.Time(t)
}

// maxSaid is how many waits one line names.
const maxSaid = 3

// line says in one line what an execution that is not over does.
func (w *waits) line(ctx context.Context, e *execution) string {
	if e.Status == "paused" {
		return e.ID + " is paused: `mind execution resume " + e.ID + "` lets it go on"
	}
	if len(e.WaitingFor) == 0 {
		return e.ID + " is " + e.Status + ": `mind execution watch " + e.ID + "` follows it"
	}
	var said []string
	for i := range e.WaitingFor {
		if i == maxSaid {
			said = append(said, fmt.Sprintf("and %d more: `mind execution show %s`", len(e.WaitingFor)-maxSaid, e.ID))
			break
		}
		said = append(said, w.say(ctx, e, &e.WaitingFor[i]))
	}
	return e.ID + " is not over: " + strings.Join(said, "; ")
}
