package executions

import (
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	// MaxOptions and MaxSchema bound the answers that a decision allows, MaxContext what is shown with it; bytes.
	MaxOptions = 32
	MaxSchema  = 16 << 10
	MaxContext = 32 << 10
	// MaxVotes is how many have to agree at most.
	MaxVotes = 256
	// MaxGates is how many decisions about one job are kept.
	MaxGates = 64
)

// DecisionStatus says how a decision stands. The names are published.
type DecisionStatus uint8

// The states.
const (
	Pending DecisionStatus = iota + 1
	Resolved
	Expired
	DecisionCanceled
)

var decisionNames = map[DecisionStatus]string{
	Pending: "pending", Resolved: "resolved", Expired: "expired", DecisionCanceled: "cancelled",
}

// String is the state as users see it.
func (s DecisionStatus) String() string { return decisionNames[s] }

// ParseDecisionStatus reads a state as users write it.
func ParseDecisionStatus(text string) (DecisionStatus, bool) {
	for s, name := range decisionNames { // order-free: names differ
		if name == text {
			return s, true
		}
	}
	return 0, false
}

// AssigneeType says what the assignee is.
type AssigneeType uint8

// The types.
const (
	Unrouted AssigneeType = iota + 1
	User
	Group
	Role
)

var assigneeNames = map[AssigneeType]string{Unrouted: "unrouted", User: "user", Group: "group", Role: "role"}

// String is the type as users see it.
func (t AssigneeType) String() string { return assigneeNames[t] }

// ParseAssignee reads an assignee: user:ID, group:ID, role:NAME, or nothing. Text without a prefix is a user.
func ParseAssignee(raw string) (AssigneeType, string) {
	kind, value, found := strings.Cut(raw, ":")
	switch {
	case raw == "":
		return Unrouted, ""
	case !found:
		return User, raw
	case kind == "user":
		return User, value
	case kind == "group":
		return Group, value
	case kind == "role":
		return Role, value
	}
	return User, raw
}

// CheckAssignee returns why nobody could answer for an assignee: a prefix without a name, or one in capitals, which would
// be the name of a user.
func CheckAssignee(raw string) error {
	kind, value, found := strings.Cut(raw, ":")
	lower := strings.ToLower(strings.TrimSpace(kind))
	if !found || lower != "user" && lower != "group" && lower != "role" {
		return nil
	}
	switch {
	case strings.TrimSpace(value) == "":
		return fmt.Errorf("the assignee %q names nobody: user:ID, group:ID or role:NAME", raw)
	case kind != lower:
		return fmt.Errorf("the assignee %q does not begin with %s", raw, lower+":")
	}
	return nil
}

// OnExpiry says what happens when nobody has answered in time.
type OnExpiry uint8

// The actions.
const (
	// ExpireFail lets the step fail, ExpireContinue goes on without an answer.
	ExpireFail OnExpiry = iota + 1
	ExpireContinue
	// ExpireEscalate asks the escalation target, once; ExpireResolve takes the default answer.
	ExpireEscalate
	ExpireResolve
)

// Option is an answer that is allowed.
type Option struct {
	ID    string `cbor:"1,keyasint,omitempty"`
	Label string `cbor:"2,keyasint,omitempty"`
	// Cancels (at a gate): this answer cancels the job.
	Cancels bool `cbor:"3,keyasint,omitempty"`
}

// Vote is the answer of one person.
type Vote struct {
	User       string `cbor:"1,keyasint,omitempty"`
	Resolution string `cbor:"2,keyasint,omitempty"`
	Comment    string `cbor:"3,keyasint,omitempty"`
	// Data is the answer to a schema, opaque here.
	Data []byte `cbor:"4,keyasint,omitempty"`
	At   int64  `cbor:"5,keyasint,omitempty"`
}

// Decision is a question to people. REST calls it a checkpoint, as published.
type Decision struct {
	ID     ident.Decision `cbor:"1,keyasint,omitempty"`
	Tenant string         `cbor:"2,keyasint,omitempty"`
	Core   ident.Core     `cbor:"3,keyasint,omitempty"`
	// Execution asks, by its wait; or a job does, at a gate.
	Execution ident.Execution `cbor:"4,keyasint,omitempty"`
	Wait      uint32          `cbor:"5,keyasint,omitempty"`
	Flow      string          `cbor:"6,keyasint,omitempty"`
	// Path is the step that asks, or the name of the gate.
	Path string `cbor:"7,keyasint,omitempty"`
	Node string `cbor:"8,keyasint,omitempty"`
	// Type is that of the question: approval, choice, freeform or what the program says.
	Type     string   `cbor:"9,keyasint,omitempty"`
	Prompt   string   `cbor:"10,keyasint,omitempty"`
	Options  []Option `cbor:"11,keyasint,omitempty"`
	Schema   []byte   `cbor:"12,keyasint,omitempty"`
	Context  []byte   `cbor:"13,keyasint,omitempty"`
	Priority uint8    `cbor:"14,keyasint,omitempty"`
	// Assignee is as the program says, or as somebody reassigned it.
	Assignee     string         `cbor:"15,keyasint,omitempty"`
	AssigneeType AssigneeType   `cbor:"16,keyasint,omitempty"`
	Status       DecisionStatus `cbor:"17,keyasint,omitempty"`
	ExpiresAt    int64          `cbor:"18,keyasint,omitempty"`
	OnExpiry     OnExpiry       `cbor:"19,keyasint,omitempty"`
	// Default is the answer of ExpireResolve, EscalateTo the assignee of ExpireEscalate, and Escalated says that it was escalated.
	Default    string `cbor:"20,keyasint,omitempty"`
	EscalateTo string `cbor:"21,keyasint,omitempty"`
	Escalated  bool   `cbor:"22,keyasint,omitempty"`
	// RemindEvery is how often the assignee is reminded, RemindAt when next; nanoseconds.
	RemindEvery int64  `cbor:"23,keyasint,omitempty"`
	RemindAt    int64  `cbor:"24,keyasint,omitempty"`
	Reminders   uint32 `cbor:"25,keyasint,omitempty"`
	// Subject is the digest of what is decided about; an answer may name it.
	Subject string `cbor:"26,keyasint,omitempty"`
	// Needed votes for the same answer resolve it; Of may vote.
	Needed     uint32 `cbor:"27,keyasint,omitempty"`
	Of         uint32 `cbor:"28,keyasint,omitempty"`
	Votes      []Vote `cbor:"29,keyasint,omitempty"`
	Resolution string `cbor:"30,keyasint,omitempty"`
	ResolvedBy string `cbor:"31,keyasint,omitempty"`
	ResolvedAt int64  `cbor:"32,keyasint,omitempty"`
	CreatedAt  int64  `cbor:"33,keyasint,omitempty"`
	Revision   uint64 `cbor:"34,keyasint,omitempty"`
	// Job asks at a gate, in this attempt.
	Job     ident.Job `cbor:"35,keyasint,omitempty"`
	Attempt uint32    `cbor:"36,keyasint,omitempty"`
	// Owed: the job may go on, once its attempt has stopped.
	Owed bool `cbor:"37,keyasint,omitempty"`
	// Kept: a user has paused the job meanwhile, so the answer does not let it go on.
	Kept bool `cbor:"38,keyasint,omitempty"`
	// Split: it expired because those who answered cannot agree any more.
	Split bool `cbor:"39,keyasint,omitempty"`

	// NotifyURL gets a notice of each change (see notice.go); empty: nobody does. Notices counts them, and Untold has those that were
	// not sent yet, the oldest first.
	NotifyURL string   `cbor:"40,keyasint,omitempty"`
	Notices   uint32   `cbor:"41,keyasint,omitempty"`
	Untold    []Notice `cbor:"42,keyasint,omitempty"`
	// NotifiedAt is when a notice was taken last, and NotifyError why the newest try failed.
	NotifiedAt  int64  `cbor:"43,keyasint,omitempty"`
	NotifyError string `cbor:"44,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (d *Decision) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(d.ID)).Text(d.Tenant).Num(uint64(d.Core)).Num(uint64(d.Execution)).Num(uint64(d.Wait))
	f = f.Text(d.Flow).Text(d.Path).Text(d.Node).Text(d.Type).Text(d.Prompt).Num(uint64(len(d.Options)))
	for _, o := range d.Options {
		f = f.Text(o.ID).Text(o.Label).Flag(o.Cancels)
	}
	f = f.Bytes(d.Schema).Bytes(d.Context).Num(uint64(d.Priority)).Text(d.Assignee).Num(uint64(d.AssigneeType)).Num(uint64(d.Status))
	f = f.Int(d.ExpiresAt).Num(uint64(d.OnExpiry)).Text(d.Default).Text(d.EscalateTo).Flag(d.Escalated)
	f = f.Int(d.RemindEvery).Int(d.RemindAt).Num(uint64(d.Reminders)).Text(d.Subject)
	f = f.Num(uint64(d.Needed)).Num(uint64(d.Of)).Num(uint64(len(d.Votes)))
	for _, v := range d.Votes {
		f = f.Text(v.User).Text(v.Resolution).Text(v.Comment).Bytes(v.Data).Int(v.At)
	}
	f = f.Text(d.Resolution).Text(d.ResolvedBy).Int(d.ResolvedAt).Int(d.CreatedAt).Num(d.Revision)
	f = f.Num(uint64(d.Job)).Num(uint64(d.Attempt)).Flag(d.Owed).Flag(d.Kept).Flag(d.Split)
	f = f.Text(d.NotifyURL).Num(uint64(d.Notices)).Num(uint64(len(d.Untold)))
	for _, n := range d.Untold {
		f = f.Num(uint64(n.Number)).Num(uint64(n.Event)).Int(n.At)
	}
	return f.Int(d.NotifiedAt).Text(d.NotifyError)
}

// Offers says whether an answer is one of the options; without options every answer is.
func (d *Decision) Offers(answer string) bool {
	for _, o := range d.Options {
		if o.ID == answer {
			return true
		}
	}
	return len(d.Options) == 0
}

// wakes is when time does something to the decision: it expires, or its assignee is reminded.
func (d *Decision) wakes() int64 {
	switch {
	case d.Status != Pending:
		return 0
	case d.RemindAt != 0 && (d.ExpiresAt == 0 || d.RemindAt < d.ExpiresAt):
		return d.RemindAt
	}
	return d.ExpiresAt
}
