package series

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// MaxReported limits how many numbers of a Set the program reports, and MaxMeasured how many the agent measures.
	MaxReported = 256
	MaxMeasured = 64
	// MaxName limits the bytes of a name.
	MaxName = 128
	// MaxBuckets limits the buckets of a Set, and MostBuckets those of one number. If there are many numbers, each has
	// fewer.
	MaxBuckets  = 16 << 10
	MostBuckets = 1 << 10
)

// Number identifies a number that changes over time.
type Number struct {
	Name string
	// Unit is the unit of a number that the agent measured; empty: the program reported it.
	Unit string
	// Shared says that the number is about a whole GPU of which the task has only a part.
	Shared bool
}

// Value is the value of a number at some time.
type Value struct {
	// At is in Unix milliseconds.
	At int64
	// Step is the step of the training, or NoStep.
	Step   int64
	Number float64
}

// Set has the histories of the numbers of one task. One goroutine may use it at a time.
type Set struct {
	// MetricsOffset is the offset in the metrics file up to which its values are in the Set. Step is the newest step,
	// or NoStep.
	MetricsOffset, Step int64

	histories map[string]*history
	measured  int
}

// New returns an empty Set.
func New() *Set { return &Set{Step: NoStep, histories: make(map[string]*history)} }

// Add adds a value. It returns false if the Set has no room for another number.
func (s *Set) Add(n Number, v Value) bool {
	h, ok := s.histories[n.Name]
	if !ok {
		if h = s.open(n); h == nil {
			return false
		}
	}
	h.add(v, s.each())
	return true
}

// open adds a history for a number; nil if the Set has no room for it.
func (s *Set) open(n Number) *history {
	reported := len(s.histories) - s.measured
	switch {
	case n.Unit != "" && s.measured >= MaxMeasured, n.Unit == "" && reported >= MaxReported:
		return nil
	case n.Unit != "":
		s.measured++
	}
	n.Name = strings.Clone(n.Name) // it may be a part of a long line
	h := &history{Number: n, width: 1}
	before := s.each()
	s.histories[n.Name] = h
	if each := s.each(); each < before {
		for _, other := range s.histories {
			other.fit(each)
		}
	}
	return h
}

// each returns how many buckets each number may have, a power of two.
func (s *Set) each() int {
	share := MaxBuckets / max(1, len(s.histories))
	return min(MostBuckets, 1<<(bits.Len(uint(share))-1))
}

// Newest returns the time of the newest value in Unix milliseconds; 0: there is no value.
func (s *Set) Newest() (at int64) {
	for _, h := range s.histories {
		if n := len(h.buckets); n > 0 {
			at = max(at, h.buckets[n-1].at)
		}
	}
	return at
}

// Select returns the series with the given names, each with at most the given number of points. Without names it
// returns all series.
func (s *Set) Select(names []string, points int) []*v1.MetricSeries {
	var out []*v1.MetricSeries
	for _, name := range slices.Sorted(maps.Keys(s.histories)) {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		h := s.histories[name]
		out = append(out, &v1.MetricSeries{
			Name: h.Name, Unit: h.Unit, Shared: h.Shared, NotFinite: h.notFinite, Points: h.points(points),
		})
	}
	return out
}
