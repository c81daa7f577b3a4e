package flowverbs

import (
	"errors"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// PutFlow makes a flow with its first version, or changes the name and the description of one.
type PutFlow struct {
	// ID is the flow to change; 0: a new one.
	ID     ident.Flow   `cbor:"1,keyasint,omitempty"`
	Caller flows.Caller `cbor:"2,keyasint,omitempty"`
	// Name and Description are those of the flow from now on; nil: they stay.
	Name        *string `cbor:"3,keyasint,omitempty"`
	Description *string `cbor:"4,keyasint,omitempty"`
	// Content and Version are of the first version; only a new flow has them.
	Content flows.Content `cbor:"5,keyasint,omitempty"`
	Version string        `cbor:"6,keyasint,omitempty"`
	Actor   *access.Actor `cbor:"7,keyasint,omitempty"`
	// Key makes a new flow once; empty: it does not. Fingerprint tells a repeat from a misuse.
	Key         string `cbor:"8,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"9,keyasint,omitempty"`
	// BasedOn is the version that the change was made from; empty: any.
	BasedOn string `cbor:"10,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutFlow) CommandNumber() uint16 { return 76 }

// AtLevel implements kernel.Leveled.
func (c PutFlow) AtLevel(at level.Level) (kernel.Command, error) { return c, flows.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("PutFlow", putFlow, auditPutFlow)) }

func putFlow(tx *kernel.Tx, c *PutFlow) Result {
	if err := describes(c.Name, c.Description); err != nil {
		return bad(err)
	}
	if err := checkTexts(maxText, c.BasedOn); err != nil {
		return bad(err)
	}
	if c.ID == 0 {
		return newFlow(tx, c)
	}
	old, refusal := reach(tx, c.ID, c.Caller, flows.ToEdit)
	if refusal != nil {
		return refused(refusal)
	}
	if r := changedSince(old, c.BasedOn); r != nil {
		return Result{Flow: old, Refusal: r}
	}
	row := *old
	describe(&row, c.Name, c.Description)
	if row == *old {
		return Result{Flow: old, Same: true}
	}
	save(tx, &row)
	return Result{Flow: &row}
}

// changedSince refuses a change that was made from another version than the current one.
func changedSince(f *flows.Flow, basedOn string) *kernel.Refusal {
	if basedOn == "" || basedOn == f.Version {
		return nil
	}
	return kernel.Refuse(kernel.CodeAborted, reason.FlowChanged, f.Name, basedOn, f.Version)
}

// describes says what is wrong with a name and a description.
func describes(name, description *string) error {
	if name != nil {
		if *name == "" {
			return errors.New("its name is empty")
		}
		if err := checkTexts(maxText, *name); err != nil {
			return err
		}
	}
	if description != nil {
		return checkTexts(maxDescription, *description)
	}
	return nil
}

func describe(row *flows.Flow, name, description *string) {
	if name != nil {
		row.Name = *name
	}
	if description != nil {
		row.Description = *description
	}
}

func newFlow(tx *kernel.Tx, c *PutFlow) Result {
	if err := c.validate(); err != nil {
		return bad(err)
	}
	l := flows.Of(tx.State)
	if c.Key != "" {
		if other, ok := l.FlowOfKey(c.Caller.Tenant, c.Key); ok {
			if c.Fingerprint == other.Fingerprint {
				return Result{Flow: other, Same: true}
			}
			return refused(kernel.Refuse(kernel.CodeAlreadyExists, reason.FlowKeyUsed, other.ID))
		}
	}
	if r := makeRoom(tx, c.Caller.Tenant, 1, len(c.Content.Packed)); r != nil {
		return refused(r)
	}
	id, ok := tx.Mint()
	if !ok {
		return refused(kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyFlows, int64(flows.MaxOfTenant)))
	}
	row := &flows.Flow{
		ID: ident.Flow(id), Tenant: tx.Intern(c.Caller.Tenant), Owner: tx.Intern(c.Caller.User), Number: 1, Version: c.Version,
		CreatedAt: tx.Now(), Key: c.Key, Fingerprint: c.Fingerprint,
	}
	describe(row, c.Name, c.Description)
	save(tx, row)
	putVersion(tx, row, c.Content, c.Caller.User)
	return Result{Flow: row}
}

// putVersion makes a content the current version of a flow that is there, and lets versions beyond the bound go.
func putVersion(tx *kernel.Tx, row *flows.Flow, content flows.Content, user string) {
	l := flows.Of(tx.State)
	v := &flows.Version{Flow: row.ID, Number: row.Number, Name: row.Version, Content: content, User: user, CreatedAt: tx.Now()}
	_ = flows.PutVersion(l, v) // The flow is there.
	if row.Number > 1 {
		flows.Supersede(l, row.ID, row.Number-1)
	}
	for _, old := range surplus(l, row.ID, row.Number) {
		flows.RemoveVersion(l, old, tx.Now())
	}
}

// surplus is the versions that need not be kept when a flow is at the version with a number.
func surplus(l *flows.Library, id ident.Flow, number uint32) (old []*flows.Version) {
	if number <= flows.MaxVersions {
		return nil
	}
	used := map[uint32]bool{}
	for d := range l.FlowDeployments(id) {
		used[d.Number] = true
	}
	for v := range l.FlowVersions(id) {
		if v.Number <= number-flows.MaxVersions && !used[v.Number] {
			old = append(old, v)
		}
	}
	return old
}

// validate says what is wrong with the command for a new flow, whatever the state is.
func (c *PutFlow) validate() error {
	switch {
	case c.Caller.Tenant == "" || c.Name == nil:
		return errors.New("it has no tenant or no name")
	case !flows.CanBeFirst(c.Version):
		return errors.New("its version is not of three numbers up to a million, as 0.1.0 is")
	}
	if err := checkTexts(maxText, c.Caller.Tenant, c.Caller.User); err != nil {
		return err
	}
	if err := checkTexts(maxKey, c.Key); err != nil {
		return err
	}
	return checkContent(c.Content)
}

var auditFlowPut = access.DefineAction(92, "flow.put", access.AboutOperation)

func auditPutFlow(tx *kernel.Tx, c *PutFlow, result Result) {
	if result.Same {
		return
	}
	object := nameOf(c.ID, result)
	switch {
	case c.ID == 0 && result.Flow != nil:
		object = nameOf(result.Flow.ID, result)
	case c.ID == 0 && c.Name != nil:
		object = *c.Name
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditFlowPut, Object: object}, result.Refusal)
}
