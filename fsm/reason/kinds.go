package reason

import (
	"strconv"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Kind says what a parameter is.
type Kind byte

// The kinds.
const (
	KindText      Kind = 'T' // a text, or an id
	KindReason    Kind = 'R'
	KindNumber    Kind = 'N'
	KindJobState  Kind = 'J'
	KindNodeState Kind = 'S'
	KindError     Kind = 'E'
	KindGPUs      Kind = 'G' // thousandths of a GPU
	KindDuration  Kind = 'D' // nanoseconds
)

func (k Kind) wire() byte {
	switch k {
	case KindText:
		return 's'
	case KindReason:
		return 'r'
	}
	return 'i'
}

// definition describes a code.
type definition struct {
	name string
	// kinds are those of the parameters.
	kinds string
}

// Show is a parameter that is no number and no reason, as everybody writes it.
func (k Kind) Show(p Param) string {
	switch k {
	case KindJobState:
		return v1.JobState_Value(p.Number).String()
	case KindNodeState:
		return v1.NodeState_Value(p.Number).String()
	case KindError:
		return v1.ErrorType_Value(p.Number).String()
	case KindGPUs:
		return strconv.FormatFloat(float64(p.Number)/1000, 'f', -1, 64)
	case KindDuration:
		return time.Duration(p.Number).String()
	case KindNumber:
		return strconv.FormatInt(p.Number, 10)
	}
	return p.Text
}

func (c Code) def() (definition, bool) {
	if int(c) >= len(table) || table[c].name == "" {
		return definition{}, false
	}
	return table[c], true
}

// String is the name of a code.
func (c Code) String() string {
	if def, ok := c.def(); ok {
		return def.name
	}
	return "code " + strconv.Itoa(int(c))
}

// Kinds are those of a code's parameters; false: there is no such code.
func (c Code) Kinds() ([]Kind, bool) {
	def, ok := c.def()
	return []Kind(def.kinds), ok
}

// Codes lists all codes.
func Codes() []Code {
	var all []Code
	for c := range table {
		if table[c].name != "" {
			all = append(all, Code(c))
		}
	}
	return all
}

// Samples are reasons of a code, for tests of its sentences: with ordinary parameters, with ones, and with zeros and
// empty texts.
func (c Code) Samples() []Reason {
	kinds, _ := c.Kinds()
	var all []Reason
	for _, n := range []int{3, 1, 0} {
		args := make([]any, len(kinds))
		for i, k := range kinds {
			switch k {
			case KindText:
				args[i] = []string{"", "b-1", "a-2", "x-3"}[n]
			case KindReason:
				args[i] = New(NodeForgotten, "n1")
			case KindGPUs:
				args[i] = 500 * n
			case KindDuration:
				args[i] = int64(n) * 1e9
			default:
				args[i] = n
			}
		}
		all = append(all, New(c, args...))
	}
	return all
}
