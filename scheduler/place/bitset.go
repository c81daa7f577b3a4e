package place

import "math/bits"

// bitset is a set of small integers.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) add(i int)    { b[i>>6] |= 1 << (i & 63) }
func (b bitset) remove(i int) { b[i>>6] &^= 1 << (i & 63) }

func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// next returns the lowest member that is at least i, or -1.
func (b bitset) next(i int) int {
	w := i >> 6
	if w >= len(b) {
		return -1
	}
	if word := b[w] >> (i & 63); word != 0 {
		return i + bits.TrailingZeros64(word)
	}
	for w++; w < len(b); w++ {
		if b[w] != 0 {
			return w<<6 + bits.TrailingZeros64(b[w])
		}
	}
	return -1
}

// nextNotIn returns the lowest member that is at least i and not in other, or -1. Both sets have the same size.
func (b bitset) nextNotIn(other bitset, i int) int {
	w := i >> 6
	if w >= len(b) {
		return -1
	}
	if word := (b[w] &^ other[w]) >> (i & 63); word != 0 {
		return i + bits.TrailingZeros64(word)
	}
	for w++; w < len(b); w++ {
		if word := b[w] &^ other[w]; word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// countNotIn returns the number of members that are not in other. Both sets have the same size.
func (b bitset) countNotIn(other bitset) int {
	n := 0
	for i, w := range b {
		n += bits.OnesCount64(w &^ other[i])
	}
	return n
}

// count returns the number of members.
func (b bitset) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
