package virtual

// Shrink finds a small subset of n parts that still causes a failure. It leaves out halves, quarters and so on, as long
// as fails reports a failure with the rest. No single part of the result can be left out. It never calls fails with all
// parts or none.
//
// Runs of a cluster differ, so fails should try more than once before it returns false. Each part of the result is then
// likely to be needed; the parts that were left out are certainly not.
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

// without divides the parts into a number of pieces, and leaves out the first piece that is not needed.
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
