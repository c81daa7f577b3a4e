package work

import (
	"math/bits"
	"slices"
)

// TypeNeed is how much of one type of GPU is held, in thousandths.
type TypeNeed struct {
	Type  string
	Milli int
}

// TypesOf returns the GPUs of each type that the tasks of a shape hold at places; node finds a node.
func TypesOf(places []TaskPlacement, s Shape, node func(string) (*Node, bool)) []TypeNeed {
	each := 1000
	if s.FractionMilli > 0 {
		each = int(s.FractionMilli)
	}
	var all []TypeNeed
	for i := range places {
		n, ok := node(places[i].Node)
		if !ok {
			continue
		}
		for m := places[i].GPUs; m != 0; m &= m - 1 {
			name := n.GPUType(uint8(bits.TrailingZeros64(m)))
			if name == "" {
				continue
			}
			at := slices.IndexFunc(all, func(t TypeNeed) bool { return t.Type == name })
			if at < 0 {
				all = append(all, TypeNeed{Type: name})
				at = len(all) - 1
			}
			all[at].Milli += each
		}
	}
	return all
}

// Placed are the places of tasks.
func Placed(tasks []Task) []TaskPlacement {
	places := make([]TaskPlacement, len(tasks))
	for i := range tasks {
		places[i] = TaskPlacement{Node: tasks[i].Node, GPUs: tasks[i].GPUs}
	}
	return places
}

// TaskOn says whether a job has a task on a node.
func (j *Job) TaskOn(node string) bool {
	return slices.ContainsFunc(j.Tasks, func(t Task) bool { return t.Node == node })
}
