package executions

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
)

// MaxURL bounds the URL that gets the notices of a decision; bytes.
const MaxURL = 2048

// NoticeEvent says what a notice is about.
type NoticeEvent uint8

// The events.
const (
	NoticeCreated NoticeEvent = iota + 1
	NoticeReassigned
	NoticeEscalated
	NoticeReminder
	NoticeResolved
	NoticeExpired
	NoticeCanceled
)

var noticeNames = map[NoticeEvent]string{
	NoticeCreated: "decision.created", NoticeReassigned: "decision.reassigned", NoticeEscalated: "decision.escalated",
	NoticeReminder: "decision.reminder", NoticeResolved: "decision.resolved", NoticeExpired: "decision.expired", NoticeCanceled: "decision.cancelled",
}

// String is the event as receivers see it. The names are published.
func (e NoticeEvent) String() string { return noticeNames[e] }

// Notice is a message to the URL of a decision.
type Notice struct {
	// Number orders the notices of a decision, and names one of them however often it is sent.
	Number uint32      `cbor:"1,keyasint,omitempty"`
	Event  NoticeEvent `cbor:"2,keyasint,omitempty"`
	At     int64       `cbor:"3,keyasint,omitempty"`
}

var ends = map[DecisionStatus]NoticeEvent{Resolved: NoticeResolved, Expired: NoticeExpired, DecisionCanceled: NoticeCanceled}

// announce adds the notices of a change; old is nil for a new decision. Because it compares the rows, no verb can forget one.
func (d *Decision) announce(old *Decision, now int64) {
	if d.NotifyURL == "" {
		return
	}
	if old == nil {
		d.Notices, d.Untold, d.NotifiedAt, d.NotifyError = 0, nil, 0, ""
		d.add(NoticeCreated, now)
		return
	}
	switch {
	case d.Status != Pending:
		if old.Status == Pending {
			d.add(ends[d.Status], now)
		}
	case d.Escalated && !old.Escalated:
		d.add(NoticeEscalated, now)
	case d.Assignee != old.Assignee:
		d.add(NoticeReassigned, now)
	case d.Reminders > old.Reminders:
		d.add(NoticeReminder, now)
	}
}

// add adds a notice. It replaces an untold one about the same event, so that a URL that does not answer collects one of each at most.
func (d *Decision) add(e NoticeEvent, now int64) {
	d.Notices++
	kept := slices.DeleteFunc(slices.Clone(d.Untold), func(n Notice) bool { return n.Event == e })
	d.Untold = append(kept, Notice{Number: d.Notices, Event: e, At: now})
}

// Told removes a notice that was told or given up; false: it is not there any more.
func (d *Decision) Told(number uint32) bool {
	kept := slices.DeleteFunc(slices.Clone(d.Untold), func(n Notice) bool { return n.Number == number })
	there := len(kept) < len(d.Untold)
	if d.Untold = kept; len(kept) == 0 {
		d.Untold = nil
	}
	return there
}

// MayReplace says whether a notice that is not there any more may have been replaced by one that is: a request may have been under way.
func (d *Decision) MayReplace(number uint32) bool {
	return number > 0 && len(d.Untold) > 0 && number < d.Untold[len(d.Untold)-1].Number
}

// wrongNotices says what does not hold of the notices of a decision.
func (d *Decision) wrongNotices() string {
	if d.NotifyURL == "" && d.Notices > 0 {
		return "has notices, and no URL to send them to"
	}
	last, seen := uint32(0), map[NoticeEvent]bool{}
	for _, n := range d.Untold {
		if n.Number <= last || n.Number > d.Notices || noticeNames[n.Event] == "" || seen[n.Event] {
			return "has untold notices that are not in order, not counted, or about the same event"
		}
		last, seen[n.Event] = n.Number, true
	}
	return ""
}

// UntoldCount is how many decisions have notices that were not told.
func (t *Book) UntoldCount() int { return t.untold.Len() }

// UntoldTenants iterates the tenants of decisions with notices that were not told, each once, in the order of their names, from one on.
func (t *Book) UntoldTenants(from string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for next := from; ; {
			found, ok := "", false
			t.untold.AscendFrom(tenantDecision{tenant: next}, func(o tenantDecision) bool {
				found, ok = o.tenant, true
				return false
			})
			if !ok || !yield(found) {
				return
			}
			next = found + "\x00"
		}
	}
}

// UntoldOf iterates the decisions of a tenant with notices that were not told, the oldest first, from one on.
func (t *Book) UntoldOf(tenant string, from ident.Decision) iter.Seq[*Decision] {
	return func(yield func(*Decision) bool) {
		t.untold.AscendFrom(tenantDecision{tenant, from}, func(o tenantDecision) bool {
			if o.tenant != tenant {
				return false
			}
			d, _ := t.decisions.Get(o.id)
			return yield(d)
		})
	}
}
