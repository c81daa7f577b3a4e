package order

// heapify orders h as a binary heap: the first element is at index 0.

func heapify[T any](h []T, before func(a, b T) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i, before)
	}
}

// sink moves the element at index i down to its position in the heap.
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

// removeFirst removes the first element. The caller sinks the element that takes its place.
func removeFirst[T any](h []T) []T {
	last := len(h) - 1
	h[0] = h[last]
	return h[:last]
}
