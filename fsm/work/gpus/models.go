// Package gpus remembers which kinds of GPU nodes have ever reported, so that a job may ask for one whose nodes are away.
package gpus

import (
	"iter"
	"strings"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

const record = 11

// gpuModel is a kind of GPU that some node once reported.
type gpuModel struct {
	Model string `cbor:"1,keyasint,omitempty"`
	Type  string `cbor:"2,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (g *gpuModel) AppendFields(f kernel.Fields) kernel.Fields { return f.Text(g.Model).Text(g.Type) }

// Models has the kinds of GPU. Its methods read; what changes it is a function, so that a frozen copy that is embedded in a view
// offers none of it.
type Models struct {
	rows kernel.Table[gpuModel, *gpuModel]
}

// NewModels returns none.
func NewModels() Models {
	return Models{rows: kernel.NewTable[gpuModel, *gpuModel](record, func(a, b gpuModel) bool {
		return a.Type < b.Type || a.Type == b.Type && a.Model < b.Model
	})}
}

// Record is the kind of row; at finds the models of a state.
func Record(at func(*kernel.State) *Models) kernel.RecordDef {
	return kernel.Rows(record, "GPU model", func(s *kernel.State) *kernel.Table[gpuModel, *gpuModel] { return &at(s).rows },
		func(s *kernel.State, g *gpuModel) error { at(s).rows.Put(*g, g); return nil })
}

// Freeze returns a copy for a view.
func Freeze(m *Models) Models { return Models{rows: m.rows.Freeze()} }

// Learn remembers the kinds of GPU that a node reported.
func Learn(m *Models, gpus []work.GPU) {
	for i := range gpus {
		g := gpuModel{Model: gpus[i].Model, Type: gpus[i].Type}
		if g.Model == "" && g.Type == "" {
			continue
		}
		if _, ok := m.rows.Get(g); !ok {
			m.rows.Put(g, &g)
		}
	}
}

// GPUTypes lists the types of GPU that nodes have ever reported.
func (m *Models) GPUTypes() []string {
	var types []string
	for g := range m.rows.Rows() {
		if len(types) == 0 || types[len(types)-1] != g.Type {
			types = append(types, g.Type)
		}
	}
	return types
}

// GPUModels iterates the types of GPU that nodes have ever reported, each with its models.
func (m *Models) GPUModels() iter.Seq2[string, string] {
	return func(yield func(name, model string) bool) {
		for g := range m.rows.Rows() {
			if !yield(g.Type, g.Model) {
				return
			}
		}
	}
}

// KnownGPU resolves a type or model to the spelling that nodes use.
func (m *Models) KnownGPU(want string) (string, bool) {
	for g := range m.rows.Rows() {
		if strings.EqualFold(want, g.Type) {
			return g.Type, true
		}
		if strings.EqualFold(want, g.Model) {
			return g.Model, true
		}
	}
	return "", false
}
