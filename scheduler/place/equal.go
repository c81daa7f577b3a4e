package place

import "github.com/mindcoordinator/mind/scheduler/hardware"

// equate numbers the kinds of hosts, by kind.number: a gang may use two kinds together that have the same number. Kinds that do not
// suit the shape have -1.
func (f *Fit) equate() {
	f.equal = make([]int, len(f.pool.kinds))
	for i := range f.equal {
		f.equal[i] = -1
	}
	numbers := map[string]int{}
	for _, c := range f.kinds {
		if !hardware.Gang(&f.shape) {
			f.equal[c.number] = c.spec
			continue
		}
		text := hardware.Equal(c.kind.gpus, &f.shape)
		n, ok := numbers[text]
		if !ok {
			n = len(numbers)
			numbers[text] = n
		}
		f.equal[c.number] = n
	}
}
