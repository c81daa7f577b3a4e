package flowverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// SaveVersion makes another content the current version of a flow. Content that it has already changes nothing, so a save can be repeated.
type SaveVersion struct {
	Flow   ident.Flow   `cbor:"1,keyasint,omitempty"`
	Caller flows.Caller `cbor:"2,keyasint,omitempty"`
	// BasedOn is the version that the content was made from. Where the flow is at another one, the save is refused, so
	// that the save of somebody else is not lost.
	BasedOn string        `cbor:"3,keyasint,omitempty"`
	Content flows.Content `cbor:"4,keyasint,omitempty"`
	// Name and Description are those of the flow from now on; nil: they stay.
	Name        *string       `cbor:"5,keyasint,omitempty"`
	Description *string       `cbor:"6,keyasint,omitempty"`
	Actor       *access.Actor `cbor:"7,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (SaveVersion) CommandNumber() uint16 { return 77 }

// AtLevel implements kernel.Leveled.
func (c SaveVersion) AtLevel(at level.Level) (kernel.Command, error) { return c, flows.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("SaveVersion", saveVersion, auditSaveVersion)) }

func saveVersion(tx *kernel.Tx, c *SaveVersion) Result {
	if err := describes(c.Name, c.Description); err != nil {
		return bad(err)
	}
	if err := checkTexts(maxText, c.BasedOn, c.Caller.User); err != nil {
		return bad(err)
	}
	if err := checkContent(c.Content); err != nil {
		return bad(err)
	}
	old, refusal := reach(tx, c.Flow, c.Caller, flows.ToEdit)
	if refusal != nil {
		return refused(refusal)
	}
	l := flows.Of(tx.State)
	now, _ := l.FlowVersion(old.ID, old.Number)
	same := now.Content.Digest == c.Content.Digest
	if c.BasedOn == "" || c.BasedOn != old.Version && !same {
		return Result{Flow: old, Refusal: kernel.Refuse(kernel.CodeAborted, reason.FlowChanged, old.Name, c.BasedOn, old.Version)}
	}
	row := *old
	describe(&row, c.Name, c.Description)
	if same {
		if row == *old {
			return Result{Flow: old, Same: true}
		}
		save(tx, &row)
		return Result{Flow: &row}
	}
	row.Number++
	row.Version = flows.Next(row.Version)
	bytes := len(c.Content.Packed)
	for _, v := range surplus(l, row.ID, row.Number) {
		bytes -= v.Content.Bytes()
	}
	if r := makeRoom(tx, row.Tenant, 0, bytes); r != nil {
		return refused(r)
	}
	save(tx, &row)
	putVersion(tx, &row, c.Content, tx.Intern(c.Caller.User))
	return Result{Flow: &row}
}

var auditFlowSave = access.DefineAction(93, "flow.save", access.AboutJobs)

func auditSaveVersion(tx *kernel.Tx, c *SaveVersion, result Result) {
	if result.Same {
		return
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditFlowSave, Object: nameOf(c.Flow, result)}, result.Refusal)
}
