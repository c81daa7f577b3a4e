package scheduler

// A binary heap in a slice: what comes first is at 0.

func heapify[T any](h []T, before func(a, b T) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i, before)
	}
}

// sink brings the one at a place down to where it belongs.
func sink[T any](h []T, i int, before func(a, b T) bool) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if before(h[child], h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// removeFirst takes out the first one. The one in its place is still to sink.
func removeFirst[T any](h []T) []T {
	last := len(h) - 1
	h[0] = h[last]
	return h[:last]
}
