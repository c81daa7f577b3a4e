package work

import "math/bits"

// Term says of an attempt when it is over: what keeps nodes for a later time goes by it. Jobs with other terms are other
// classes, so there are few of them.
type Term uint8

const (
	// TermOpen: nobody knows.
	TermOpen Term = 0
	// TermYields: it may be preempted at any time.
	TermYields Term = 255

	termUnit = int64(60e9)
)

// TermOf is the term of a job. A time limit is rounded up to a power of two, in minutes.
func TermOf(j *Job) Term {
	switch {
	case j.Preemptible && !j.Retry.Never:
		return TermYields
	case j.MaxRuntime <= 0:
		return TermOpen
	}
	return Term(1 + bits.Len64(uint64((j.MaxRuntime-1)/termUnit)))
}

// Limit is the longest time limit of the term, in nanoseconds; 0: there is none.
func (t Term) Limit() int64 {
	if t == TermOpen || t == TermYields {
		return 0
	}
	return termUnit << (t - 1)
}
