// Package ranges keeps sets of numbers as ranges: the elements of an array that are alike are few of them, however many they are.
//
// Guarantees: a set has one form, so that two sets of the same numbers are equal, and have equal hashes.
package ranges

import (
	"slices"
	"sort"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Range is the numbers from First to Last.
type Range struct {
	_     struct{} `cbor:",toarray"`
	First uint32
	Last  uint32
}

// Set is a set of numbers, as ranges in order that do not touch.
type Set []Range

// Has says whether a number is in the set.
func (s Set) Has(n uint32) bool {
	i := s.at(n)
	return i < len(s) && s[i].First <= n
}

// at is the first range that ends at n or after it.
func (s Set) at(n uint32) int {
	return sort.Search(len(s), func(i int) bool { return s[i].Last >= n })
}

// Len is how many numbers are in the set.
func (s Set) Len() int {
	n := 0
	for _, r := range s {
		n += int(r.Last-r.First) + 1
	}
	return n
}

// Below is how many numbers of the set are less than n.
func (s Set) Below(n uint32) int {
	have := 0
	for _, r := range s {
		if r.First >= n {
			break
		}
		have += int(min(r.Last, n-1)-r.First) + 1
	}
	return have
}

// Next is the least number of the set that is at least n; false: there is none.
func (s Set) Next(n uint32) (uint32, bool) {
	i := s.at(n)
	if i == len(s) {
		return 0, false
	}
	return max(n, s[i].First), true
}

// With is the set with one more number. The old one may share its memory, and must not be used any more.
func (s Set) With(n uint32) Set {
	i := s.at(n)
	if i < len(s) && s[i].First <= n {
		return s
	}
	left, right := i > 0 && s[i-1].Last+1 == n, i < len(s) && s[i].First == n+1
	switch {
	case left && right:
		s[i-1].Last = s[i].Last
		return slices.Delete(s, i, i+1)
	case left:
		s[i-1].Last = n
	case right:
		s[i].First = n
	default:
		return slices.Insert(s, i, Range{First: n, Last: n})
	}
	return s
}

// Without is the set without a number. The old one may share its memory, and must not be used any more.
func (s Set) Without(n uint32) Set {
	i := s.at(n)
	if i == len(s) || s[i].First > n {
		return s
	}
	switch r := s[i]; {
	case r.First == r.Last:
		return slices.Delete(s, i, i+1)
	case r.First == n:
		s[i].First++
	case r.Last == n:
		s[i].Last--
	default:
		s[i].Last = n - 1
		return slices.Insert(s, i+1, Range{First: n + 1, Last: r.Last})
	}
	return s
}

// And is a new set of the numbers of both.
func (s Set) And(other Set) Set {
	all := append(slices.Clone(s), other...)
	slices.SortFunc(all, func(a, b Range) int { return int(a.First) - int(b.First) })
	merged := all[:0]
	for _, r := range all {
		if last := len(merged) - 1; last >= 0 && r.First <= merged[last].Last+1 {
			merged[last].Last = max(merged[last].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// AppendFields adds the set to a hash.
func (s Set) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(len(s)))
	for _, r := range s {
		f = f.Num(uint64(r.First)<<32 | uint64(r.Last))
	}
	return f
}
