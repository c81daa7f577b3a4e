// Package gpus remembers which kinds of GPU nodes have ever reported, so that a job may ask for one whose nodes are away.
package gpus

import (
	"cmp"
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
	// MIG is the profile, if it is a slice.
	MIG string `cbor:"3,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (g *gpuModel) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(g.Model).Text(g.Type)
	if g.MIG != "" {
		f = f.Text(g.MIG)
	}
	return f
}

// Models has the kinds of GPU. Its methods read; what changes it is a function, so that a frozen copy that is embedded in a view
// offers none of it.
type Models struct {
	rows kernel.Table[gpuModel, *gpuModel]
}

// NewModels returns none.
func NewModels() Models {
	return Models{rows: kernel.NewTable[gpuModel, *gpuModel](record, func(a, b gpuModel) bool {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Model, b.Model), strings.Compare(a.MIG, b.MIG)) < 0
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
		g := gpuModel{Model: gpus[i].Model, Type: gpus[i].Type, MIG: gpus[i].MIG}
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

// GPUModels iterates the kinds of GPU that nodes have ever reported: their type, their model, and their profile as slices.
func (m *Models) GPUModels() iter.Seq[work.GPU] {
	return func(yield func(work.GPU) bool) {
		for g := range m.rows.Rows() {
			if !yield(work.GPU{Type: g.Type, Model: g.Model, MIG: g.MIG}) {
				return
			}
		}
	}
}

// KnownGPU resolves a type or model to the spelling that nodes use. slice: it is one of slices.
func (m *Models) KnownGPU(want string) (spelled string, slice, ok bool) {
	for g := range m.rows.Rows() {
		if strings.EqualFold(want, g.Type) {
			return g.Type, g.MIG != "", true
		}
		if strings.EqualFold(want, g.Model) {
			return g.Model, g.MIG != "", true
		}
	}
	return "", false, false
}
