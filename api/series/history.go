package series

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// NoStep is the step of a value without one.
const NoStep = -1

// bucket summarizes some consecutive values.
type bucket struct {
	at, step             int64 // of the last value; at in Unix milliseconds
	count                int64
	min, max, mean, last float64
}

// and merges a bucket with the one that follows it.
func (b bucket) and(next bucket) bucket {
	n := b.count + next.count
	// The mean is weighted, because a sum of large values would overflow.
	weight := float64(next.count) / float64(n)
	mean := b.mean*(1-weight) + next.mean*weight
	low, high := min(b.min, next.min), max(b.max, next.max)
	return bucket{
		at: next.at, step: next.step, count: n, min: low, max: high, mean: max(low, min(high, mean)), last: next.last,
	}
}

func (b bucket) point() *v1.MetricPoint {
	p := &v1.MetricPoint{
		Time: timestamppb.New(time.UnixMilli(b.at)), Min: b.min, Max: b.max, Mean: b.mean, Last: b.last, Count: b.count,
	}
	if b.step != NoStep {
		p.Step = proto.Int64(b.step)
	}
	return p
}

// history is the history of one number. Each of its buckets except the last has width values.
type history struct {
	Number
	width     int64
	buckets   []bucket
	notFinite int64
}

// add adds a value. The history then has at most the given number of buckets.
func (h *history) add(v Value, most int) {
	if math.IsNaN(v.Number) || math.IsInf(v.Number, 0) {
		h.notFinite++
		return
	}
	n := len(h.buckets)
	if n > 0 {
		v.At = max(v.At, h.buckets[n-1].at) // the clock was set back
	}
	one := bucket{at: v.At, step: v.Step, count: 1, min: v.Number, max: v.Number, mean: v.Number, last: v.Number}
	if n > 0 && h.buckets[n-1].count < h.width {
		h.buckets[n-1] = h.buckets[n-1].and(one)
		return
	}
	h.fit(most - 1)
	h.buckets = append(h.buckets, one)
}

// fit merges neighbouring buckets until there are at most the given number.
func (h *history) fit(most int) {
	for len(h.buckets) > max(1, most) {
		n := len(h.buckets)
		for i := range n / 2 {
			h.buckets[i] = h.buckets[2*i].and(h.buckets[2*i+1])
		}
		if n%2 == 1 {
			h.buckets[n/2] = h.buckets[n-1]
		}
		h.buckets = h.buckets[:(n+1)/2]
		h.width *= 2
	}
}

// points returns the history with at most the given number of points.
func (h *history) points(most int) []*v1.MetricPoint {
	n := len(h.buckets)
	most = min(most, n)
	out := make([]*v1.MetricPoint, 0, most)
	for i := range most {
		group := h.buckets[i*n/most : (i+1)*n/most]
		b := group[0]
		for _, next := range group[1:] {
			b = b.and(next)
		}
		out = append(out, b.point())
	}
	return out
}

// Merge merges neighbouring points until there are at most the given number.
func Merge(points []*v1.MetricPoint, most int) []*v1.MetricPoint {
	if len(points) <= most {
		return points
	}
	h := history{}
	for _, p := range points {
		b := bucket{
			at: p.GetTime().AsTime().UnixMilli(), step: NoStep, count: p.GetCount(), min: p.GetMin(), max: p.GetMax(), mean: p.GetMean(), last: p.GetLast(),
		}
		if p.Step != nil {
			b.step = p.GetStep()
		}
		h.buckets = append(h.buckets, b)
	}
	return h.points(max(1, most))
}
