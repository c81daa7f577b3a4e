package typed

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	// MaxLimits is how many types one set of limits names at most.
	MaxLimits = 32
	// MaxName bounds the name of a type, in bytes.
	MaxName = 64
)

// Limit bounds the GPUs of one type that are held together.
type Limit struct {
	Type string `cbor:"1,keyasint,omitempty"`
	GPUs int32  `cbor:"2,keyasint,omitempty"`
}

// Limits are limits by type, each type once, in order. A type that is not named has no limit.
type Limits []Limit

// Of is the limit of a type; false: it has none. Types are compared without regard to case.
func (l Limits) Of(name string) (int32, bool) {
	for i := range l {
		if strings.EqualFold(l[i].Type, name) {
			return l[i].GPUs, true
		}
	}
	return 0, false
}

// Valid says whether the limits may be in the state.
func (l Limits) Valid() bool {
	for i := range l {
		if l[i].Type == "" || len(l[i].Type) > MaxName || l[i].GPUs < 0 || i > 0 && fold(l[i-1].Type) >= fold(l[i].Type) {
			return false
		}
	}
	return len(l) <= MaxLimits
}

func fold(name string) string { return strings.ToUpper(name) }

// From makes limits of a map.
func From(m map[string]int32) Limits {
	l := make(Limits, 0, len(m))
	for name, n := range m { // order-free: sorted below
		l = append(l, Limit{name, n})
	}
	slices.SortFunc(l, func(a, b Limit) int { return strings.Compare(fold(a.Type), fold(b.Type)) })
	return l
}

// String is "A100=8,H100=16".
func (l Limits) String() string {
	parts := make([]string, len(l))
	for i := range l {
		parts[i] = l[i].Type + "=" + strconv.Itoa(int(l[i].GPUs))
	}
	return strings.Join(parts, ",")
}

// AppendFields implements kernel.Row for what has limits.
func (l Limits) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(len(l)))
	for i := range l {
		f = f.Text(l[i].Type).Int(int64(l[i].GPUs))
	}
	return f
}
