package flowverbs

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// RecordDeployment says that a version of a flow became a version of a Core. The Core is there when it is proposed, so a right that was
// taken away meanwhile, and a deletion, keep it out of no list.
type RecordDeployment struct {
	Flow   ident.Flow `cbor:"1,keyasint,omitempty"`
	Tenant string     `cbor:"2,keyasint,omitempty"`
	User   string     `cbor:"3,keyasint,omitempty"`
	// Version is the name of the version of the flow.
	Version       string        `cbor:"4,keyasint,omitempty"`
	Core          ident.Core    `cbor:"5,keyasint,omitempty"`
	CoreVersion   uint32        `cbor:"6,keyasint,omitempty"`
	PublishedSlug string        `cbor:"7,keyasint,omitempty"`
	Actor         *access.Actor `cbor:"8,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (RecordDeployment) CommandNumber() uint16 { return 81 }

// AtLevel implements kernel.Leveled.
func (c RecordDeployment) AtLevel(at level.Level) (kernel.Command, error) {
	return c, flows.Gate.Check(at)
}

func init() { verbs.Add(kernel.Define("RecordDeployment", recordDeployment, auditDeployment)) }

func recordDeployment(tx *kernel.Tx, c *RecordDeployment) Result {
	if err := checkTexts(maxText, c.User, c.Version, c.PublishedSlug); err != nil {
		return bad(err)
	}
	if c.Core == 0 {
		return bad(fmt.Errorf("it was deployed to no Core"))
	}
	l := flows.Of(tx.State)
	f, ok := l.Flow(c.Flow)
	if !ok || f.Tenant != c.Tenant {
		return refused(kernel.Refuse(kernel.CodeNotFound, reason.NoFlow, c.Flow))
	}
	number := uint32(0)
	for v := range l.FlowVersions(f.ID) {
		if v.Name == c.Version {
			number = v.Number
		}
	}
	if number == 0 {
		return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoFlowVersion, f.Name, c.Version)}
	}
	id, ok := tx.Mint()
	if !ok {
		return Result{Flow: f, Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyFlows, int64(flows.MaxOfTenant))}
	}
	row := &flows.Deployment{
		ID: ident.Deployment(id), Flow: f.ID, Number: number, Version: c.Version, Core: c.Core, CoreVersion: c.CoreVersion,
		User: c.User, At: tx.Now(), PublishedSlug: c.PublishedSlug,
	}
	flows.PutDeployment(l, row)
	forgetDeployments(tx, l, f)
	return Result{Flow: f, Deployment: row}
}

// forgetDeployments lets the oldest deployments beyond the bound go, and the versions that only they have kept.
func forgetDeployments(tx *kernel.Tx, l *flows.Library, f *flows.Flow) {
	var all []*flows.Deployment
	for d := range l.FlowDeployments(f.ID) {
		all = append(all, d)
	}
	if len(all) <= flows.MaxDeployments {
		return
	}
	for _, d := range all[:len(all)-flows.MaxDeployments] {
		flows.RemoveDeployment(l, d)
	}
	for _, v := range surplus(l, f.ID, f.Number) {
		flows.RemoveVersion(l, v, tx.Now())
	}
}

var auditFlowDeploy = access.DefineAction(97, "flow.deploy", access.AboutOperation)

func auditDeployment(tx *kernel.Tx, c *RecordDeployment, result Result) {
	object := nameOf(c.Flow, result) + " " + c.Version + " to " + c.Core.String()
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditFlowDeploy, Object: object}, result.Refusal)
}
