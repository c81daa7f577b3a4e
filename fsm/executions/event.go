package executions

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	// MaxSegments and MaxEventBytes bound the events that are kept; the oldest go first.
	MaxSegments   = 65_536
	MaxEventBytes = 64 << 20
	// MaxEventValue bounds the value of an event; a larger one is left out. Published.
	MaxEventValue = 4 << 10
)

// Happening is one event of an execution, or one that somebody sent to a Core.
type Happening struct {
	// Type is published: scaicore.runtime.block.entered and the like, or what the program emits.
	Type string `cbor:"1,keyasint,omitempty"`
	Path string `cbor:"2,keyasint,omitempty"`
	Node string `cbor:"3,keyasint,omitempty"`
	// Kind is that of the block.
	Kind    string `cbor:"4,keyasint,omitempty"`
	Attempt uint32 `cbor:"5,keyasint,omitempty"`
	// Name is the binding of the value, which is opaque here. Truncated: it was too large.
	Name      string   `cbor:"6,keyasint,omitempty"`
	Value     []byte   `cbor:"7,keyasint,omitempty"`
	Truncated bool     `cbor:"8,keyasint,omitempty"`
	Err       *Failure `cbor:"9,keyasint,omitempty"`
}

// Segment is the events of one change of an execution.
type Segment struct {
	// ID orders segments by age.
	ID        uint64          `cbor:"1,keyasint,omitempty"`
	Tenant    string          `cbor:"2,keyasint,omitempty"`
	Core      ident.Core      `cbor:"3,keyasint,omitempty"`
	Execution ident.Execution `cbor:"4,keyasint,omitempty"`
	At        int64           `cbor:"5,keyasint,omitempty"`
	Events    []Happening     `cbor:"6,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (s *Segment) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(s.ID).Text(s.Tenant).Num(uint64(s.Core)).Num(uint64(s.Execution)).Int(s.At).Num(uint64(len(s.Events)))
	for i := range s.Events {
		e := &s.Events[i]
		f = f.Text(e.Type).Text(e.Path).Text(e.Node).Text(e.Kind).Num(uint64(e.Attempt)).Text(e.Name).Bytes(e.Value).Flag(e.Truncated)
		f = e.Err.fields(f)
	}
	return f
}

// size is about what a segment takes; bytes.
func (s *Segment) size() int {
	n := 64 + len(s.Tenant)
	for i := range s.Events {
		e := &s.Events[i]
		n += 64 + len(e.Type) + len(e.Path) + len(e.Node) + len(e.Kind) + len(e.Name) + len(e.Value)
		if e.Err != nil {
			n += 32 + len(e.Err.Code) + len(e.Err.Message) + len(e.Err.Step)
		}
	}
	return n
}
