package executions

import (
	"unicode/utf8"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	// maxOption bounds the id and the label of an option; bytes.
	maxOption = 256
	// minReminder is how often an assignee is reminded at most; nanoseconds.
	minReminder = 60e9
)

// Askable says whether a question is within the bounds.
func Askable(d *Decision) bool {
	for _, o := range d.Options {
		if len(o.ID) > maxOption || len(o.Label) > maxOption {
			return false
		}
	}
	return len(d.Options) <= MaxOptions && len(d.Schema) <= MaxSchema && len(d.Context) <= MaxContext && d.Needed <= MaxVotes && d.Of <= MaxVotes &&
		len(d.NotifyURL) <= MaxURL
}

// Ask puts a new decision in. The caller has set its id, its asker and when it expires; its state is set here.
func Ask(tx *kernel.Tx, d *Decision) {
	d.Status, d.CreatedAt = Pending, tx.Now()
	d.Votes, d.Resolution, d.ResolvedBy, d.ResolvedAt, d.Reminders, d.Escalated = nil, "", "", 0, 0, false
	d.Owed, d.Kept, d.Split = false, false, false
	d.Notices, d.Untold, d.NotifiedAt, d.NotifyError = 0, nil, 0, ""
	d.NotifyURL = tx.Intern(d.NotifyURL)
	d.Needed = max(d.Needed, 1)
	d.Of = max(d.Of, d.Needed)
	for _, text := range []*string{&d.Type, &d.Path, &d.Prompt, &d.Assignee, &d.Default, &d.EscalateTo, &d.Subject} {
		*text = Clip(*text)
	}
	d.AssigneeType, _ = ParseAssignee(d.Assignee)
	if d.RemindEvery > 0 {
		d.RemindEvery = max(d.RemindEvery, minReminder)
		d.RemindAt = tx.Now() + d.RemindEvery
	} else {
		d.RemindEvery, d.RemindAt = 0, 0
	}
	SaveDecision(tx, d)
}

// Clip cuts a text that people read, between characters.
func Clip(text string) string {
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
