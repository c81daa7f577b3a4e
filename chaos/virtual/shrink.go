package virtual

// Shrink finds few of n things without which a failure is not there: it is given their numbers, and leaves out halves, quarters
// and so on, as long as fails says that what is left still fails. When it is done, no single one of the rest can be left out.
// It never asks about all of them or about none.
//
// A run of a cluster is not the same twice, so fails should try more than once before it says no. What it then leaves in is
// only likely to be needed; what it leaves out is certainly not.
func Shrink(n int, fails func(part []int) bool) []int {
	part := make([]int, n)
	for i := range part {
		part[i] = i
	}
	for pieces := 2; len(part) > 1; {
		less, ok := without(part, pieces, fails)
		switch {
		case ok:
			part, pieces = less, max(2, min(pieces-1, len(less)))
		case pieces >= len(part):
			return part
		default:
			pieces = min(2*pieces, len(part))
		}
	}
	return part
}

// without leaves out one of so many pieces, the first one of which that is not needed.
func without(part []int, pieces int, fails func([]int) bool) ([]int, bool) {
	for i := range pieces {
		from, to := i*len(part)/pieces, (i+1)*len(part)/pieces
		less := append(append([]int(nil), part[:from]...), part[to:]...)
		if len(less) > 0 && fails(less) {
			return less, true
		}
	}
	return nil, false
}
