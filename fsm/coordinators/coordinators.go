// Package coordinators has the coordinators, their addresses, the terms in which they led, and the feature level that all of
// them support.
//
// It says where a replica is, not whether it votes: who votes comes from Raft itself, and is in the kernel's part of the
// state. An address is believed as it is proposed; whether anybody answers there is for others to see.
package coordinators

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const recordCoordinator = 60

// Coordinator is one replica and its addresses.
type Coordinator struct {
	ID         string `cbor:"1,keyasint,omitempty"`
	RaftAddr   string `cbor:"2,keyasint,omitempty"`
	GRPCAddr   string `cbor:"3,keyasint,omitempty"`
	HTTPAddr   string `cbor:"4,keyasint,omitempty"`
	GossipAddr string `cbor:"5,keyasint,omitempty"`
}

// AppendFields implements kernel.Hashed.
func (c *Coordinator) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Text(c.ID).Text(c.RaftAddr).Text(c.GRPCAddr).Text(c.HTTPAddr).Text(c.GossipAddr)
}

// PutCoordinator makes the addresses of a replica known.
type PutCoordinator struct {
	Coordinator Coordinator   `cbor:"1,keyasint,omitempty"`
	Actor       *access.Actor `cbor:"2,keyasint,omitempty"`
}

// DeleteCoordinator forgets a replica.
type DeleteCoordinator struct {
	ID    string        `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CoordinatorResult says why nothing was done, if so.
type CoordinatorResult struct {
	Refusal *kernel.Refusal
}

// tables is the part of the state that this package keeps.
type tables struct {
	rows  kernel.Table[string, *Coordinator]
	terms kernel.Table[uint64, *Term]
}

func (t *tables) Freeze(*kernel.State) kernel.Part {
	return &tables{rows: t.rows.Freeze(), terms: t.terms.Freeze()}
}

func of(s *kernel.State) *tables { return kernel.PartOf[*tables](s) }

// Domain is all that this package is to the state.
func Domain() kernel.Domain {
	return kernel.Domain{
		Name: "coordinators",
		Open: func(*kernel.State) kernel.Part {
			return &tables{
				rows:  kernel.NewTable[string, *Coordinator](recordCoordinator, func(a, b string) bool { return a < b }),
				terms: kernel.NewTable[uint64, *Term](recordTerm, func(a, b uint64) bool { return a < b }),
			}
		},
		Commands: []kernel.CommandDef{
			kernel.Define("PutCoordinator", put, auditPut),
			kernel.Define("DeleteCoordinator", remove, auditRemove),
			kernel.Define("RaiseLevel", raise, auditRaise),
			kernel.Define("NoteTerm", noteTerm, nil),
		},
		Check: check,
		Records: []kernel.RecordDef{
			kernel.Rows(recordCoordinator, "coordinator", func(s *kernel.State) *kernel.Table[string, *Coordinator] { return &of(s).rows },
				func(s *kernel.State, c *Coordinator) error { of(s).rows.Put(c.ID, c); return nil }),
			kernel.Rows(recordTerm, "term", func(s *kernel.State) *kernel.Table[uint64, *Term] { return &of(s).terms },
				func(s *kernel.State, t *Term) error { of(s).terms.Put(t.Number, t); return nil }),
		},
	}
}

// CommandNumber implements kernel.Command.
func (PutCoordinator) CommandNumber() uint16 { return 9 }

func put(tx *kernel.Tx, c *PutCoordinator) CoordinatorResult {
	t := of(tx.State)
	row := c.Coordinator
	if row.ID == "" {
		return CoordinatorResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.CoordinatorWithoutID)}
	}
	if old, ok := t.rows.Get(row.ID); ok && *old == row {
		return CoordinatorResult{}
	}
	t.rows.Put(row.ID, &row)
	event.Emit(tx, event.Event{Topic: event.TopicCoordinator, Name: row.ID})
	return CoordinatorResult{}
}

// CommandNumber implements kernel.Command.
func (DeleteCoordinator) CommandNumber() uint16 { return 10 }

func remove(tx *kernel.Tx, c *DeleteCoordinator) CoordinatorResult {
	t := of(tx.State)
	if _, ok := t.rows.Get(c.ID); !ok {
		return CoordinatorResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCoordinator, c.ID)}
	}
	t.rows.Delete(c.ID)
	event.Emit(tx, event.Event{Topic: event.TopicCoordinator, Name: c.ID})
	return CoordinatorResult{}
}

// KeepOnly forgets all coordinators but those that are to stay.
func KeepOnly(tx *kernel.Tx, stay []string) {
	t := of(tx.State)
	var gone []string
	for c := range t.rows.Rows() {
		if !slices.Contains(stay, c.ID) {
			gone = append(gone, c.ID)
		}
	}
	for _, id := range gone {
		t.rows.Delete(id)
		event.Emit(tx, event.Event{Topic: event.TopicCoordinator, Name: id})
	}
}

// AuditCoordinatorJoin and AuditCoordinatorRemove are the actions in the audit log.
var (
	AuditCoordinatorJoin   = access.DefineAction(16, "coordinator.join", access.AboutOperation)
	AuditCoordinatorRemove = access.DefineAction(17, "coordinator.remove", access.AboutOperation)
)

func auditPut(tx *kernel.Tx, c *PutCoordinator, result CoordinatorResult) {
	r := access.AuditRecord{Action: AuditCoordinatorJoin, Object: c.Coordinator.ID, Message: reason.Text(c.Coordinator.RaftAddr)}
	access.Record(tx, c.Actor, r, result.Refusal)
}

func auditRemove(tx *kernel.Tx, c *DeleteCoordinator, result CoordinatorResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditCoordinatorRemove, Object: c.ID}, result.Refusal)
}

// View reads the coordinators of a frozen state.
type View struct{ t *tables }

// ViewOf returns the coordinators of a view.
func ViewOf(v *kernel.View) View { return View{of(v.State())} }

// Coordinator returns a replica by its id.
func (v View) Coordinator(id string) (*Coordinator, bool) { return v.t.rows.Get(id) }

// Coordinators iterates the replicas by id.
func (v View) Coordinators() iter.Seq[*Coordinator] { return v.t.rows.Rows() }
