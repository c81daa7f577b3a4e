package access

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// MaxDenials bounds the denials of one command.
const MaxDenials = 256

// RecordDenials writes down calls that were denied before they came to the state. The gateway or coordinator that denied them has added them up, so
// that a flood of them is a few records.
type RecordDenials struct {
	Denials []Denial `cbor:"1,keyasint,omitempty"`
}

// Denial is how often somebody was denied something, for one reason.
type Denial struct {
	// Tenant and User are empty where nobody knows who it was.
	Tenant string      `cbor:"1,keyasint,omitempty"`
	User   string      `cbor:"2,keyasint,omitempty"`
	Token  ident.Token `cbor:"3,keyasint,omitempty"`
	// kernel.Code is kernel.CodeUnauthenticated or kernel.CodePermissionDenied, Reason why in a word.
	Code   kernel.Code `cbor:"4,keyasint,omitempty"`
	Reason string      `cbor:"5,keyasint,omitempty"`
	// The name of the method, and the address of the caller; empty if there were several.
	What string `cbor:"6,keyasint,omitempty"`
	From string `cbor:"7,keyasint,omitempty"`
	// Count of them, within Lasted nanoseconds.
	Count  uint64 `cbor:"8,keyasint,omitempty"`
	Lasted int64  `cbor:"9,keyasint,omitempty"`
	// Request is the id of the first.
	Request string `cbor:"10,keyasint,omitempty"`
	// By is the gateway or coordinator that denied them.
	By string `cbor:"11,keyasint,omitempty"`
}

// DenialsResult says how many were written down.
type DenialsResult struct{ Recorded int }

// CommandNumber implements kernel.Command.
func (RecordDenials) CommandNumber() uint16 { return 23 }

func recordDenials(tx *kernel.Tx, c *RecordDenials) DenialsResult {
	recorded := 0
	for i := range c.Denials {
		d := &c.Denials[i]
		if i == MaxDenials {
			break
		}
		if d.Count == 0 || d.Code != kernel.CodeUnauthenticated && d.Code != kernel.CodePermissionDenied {
			continue
		}
		who := &Actor{Tenant: d.Tenant, User: d.User, Token: d.Token, Request: d.Request}
		if d.Tenant == "" {
			who.User = "" // Nobody has proved to be that user.
		}
		Record(tx, who, AuditRecord{Action: AuditAccessDeny, Object: d.What}, &kernel.Refusal{Code: d.Code, Reason: d.said()})
		recorded++
	}
	return DenialsResult{Recorded: recorded}
}

// said is a denial as the log has it.
func (d *Denial) said() reason.Reason {
	return reason.New(reason.Denied, d.Reason, d.Count, d.Lasted, d.By, d.From)
}
