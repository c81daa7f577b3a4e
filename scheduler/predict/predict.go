// Package predict predicts the durations of jobs from those of similar jobs.
//
// A [Model] learns from finished jobs, one by one. It keeps nothing about jobs that wait or run. A prediction is a
// weighted mean of three sources. The mean is geometric, because durations differ by orders of magnitude:
//   - jobs of the same size that were submitted at about the same time, which are often runs of one experiment,
//   - the newest jobs of the same tenant and size with the same name, except for a number,
//   - the newest jobs of that size, which count as one job.
//
// Of each source only jobs count that took longer than this job has run: a job that has outrun most similar jobs is
// expected to run for long.
package predict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	// together is the time between two submissions at which a job's weight is 1/e. Beyond horizon the weight is 0.
	together = float64(5 * time.Minute)
	horizon  = int64(20 * time.Minute)
	// sameUser multiplies the weight of jobs of the same user.
	sameUser = 3
	// mostNear bounds the jobs of one size that are kept by submission, mostNewest those that are kept because they
	// ended last, and mostNamed those of one name.
	mostNear   = 1 << 14
	mostNewest = 400
	mostNamed  = 15
	// mostNames bounds the names of one size. Beyond it, the names that ended longest ago are dropped.
	mostNames = 1 << 14
	// unheard is the prediction for a size of which no job has finished yet. shortest is the shortest prediction.
	unheard  = int64(time.Hour)
	shortest = int64(time.Minute)
)

// Model has the durations that were learned. The zero value is a model without data.
type Model struct {
	sizes map[int]*size
}

// size has the durations of the jobs of one size.
type size struct {
	near   []sample // by submission
	newest []int64  // durations, in the order in which the jobs ended
	sorted []int64  // newest, shortest first; nil after a change
	named  map[name]*run
	ended  int // counts jobs, to order the names by their last end
}

type sample struct {
	submitted int64
	user      user
	took      int64
	log       float64
}

type user struct{ tenant, name string }

type name struct{ tenant, stem string }

// run has the durations of the newest jobs of one name.
type run struct {
	took []int64
	last int
}

// Learn adds a job that ran to its end. took is how long it ran, all its attempts together.
func (m *Model) Learn(j *work.Job, took int64) {
	if took <= 0 {
		return
	}
	if m.sizes == nil {
		m.sizes = map[int]*size{}
	}
	milli := j.Shape.GPUMilli()
	s := m.sizes[milli]
	if s == nil {
		s = &size{named: map[name]*run{}}
		m.sizes[milli] = s
	}
	s.ended++
	at, _ := slices.BinarySearchFunc(s.near, j.CreatedAt+1, func(x sample, t int64) int { return cmp.Compare(x.submitted, t) })
	s.near = slices.Insert(s.near, at, sample{j.CreatedAt, user{j.Tenant, j.User}, took, math.Log(float64(took))})
	if len(s.near) > mostNear {
		s.near = slices.Delete(s.near, 0, mostNear/8)
	}
	s.sorted = nil
	if s.newest = append(s.newest, took); len(s.newest) > 2*mostNewest {
		s.newest = slices.Delete(s.newest, 0, len(s.newest)-mostNewest)
	}
	s.learnName(j, took)
}

func (s *size) learnName(j *work.Job, took int64) {
	if j.Name == "" {
		return
	}
	key := name{j.Tenant, work.Stem(j.Name)}
	r := s.named[key]
	if r == nil {
		if len(s.named) >= mostNames {
			s.forgetNames()
		}
		r = &run{}
		s.named[key] = r
	}
	r.last = s.ended
	if r.took = append(r.took, took); len(r.took) > mostNamed {
		r.took = slices.Delete(r.took, 0, 1)
	}
}

// forgetNames drops the half of the names that ended longest ago.
func (s *size) forgetNames() {
	lasts := make([]int, 0, len(s.named))
	for _, r := range s.named {
		lasts = append(lasts, r.last)
	}
	slices.Sort(lasts)
	for key, r := range s.named {
		if r.last < lasts[len(lasts)/2] {
			delete(s.named, key)
		}
	}
}

// Remaining predicts how much longer a job runs that has run for some time. The caller applies the job's time limit.
func (m *Model) Remaining(j *work.Job, ran int64) int64 {
	s := m.sizes[j.Shape.GPUMilli()]
	if s == nil {
		return max(unheard-ran, ran, shortest)
	}
	sum, weight := math.Log(float64(s.typical(ran))), 1.0
	at, _ := slices.BinarySearchFunc(s.near, j.CreatedAt-horizon, func(x sample, t int64) int { return cmp.Compare(x.submitted, t) })
	who := user{j.Tenant, j.User}
	for i := at; i < len(s.near) && s.near[i].submitted <= j.CreatedAt+horizon; i++ {
		x := &s.near[i]
		if x.took <= ran {
			continue
		}
		w := math.Exp(-math.Abs(float64(x.submitted-j.CreatedAt)) / together)
		if x.user == who {
			w *= sameUser
		}
		sum += w * x.log
		weight += w
	}
	if j.Name != "" {
		if r := s.named[name{j.Tenant, work.Stem(j.Name)}]; r != nil {
			for _, took := range r.took {
				if took > ran {
					sum += math.Log(float64(took))
					weight++
				}
			}
		}
	}
	return max(int64(math.Exp(sum/weight))-ran, shortest)
}

// typical returns the median duration of those of the newest jobs that took longer than ran.
func (s *size) typical(ran int64) int64 {
	if s.sorted == nil {
		s.sorted = slices.Clone(s.newest[max(0, len(s.newest)-mostNewest):])
		slices.Sort(s.sorted)
	}
	if took, ok := MedianBeyond(s.sorted, ran); ok {
		return took
	}
	return 2*ran + shortest
}

// MedianBeyond returns the median of the sorted values that are greater than ran, and false if there are none.
func MedianBeyond(sorted []int64, ran int64) (int64, bool) {
	i, _ := slices.BinarySearch(sorted, ran+1)
	if i == len(sorted) {
		return 0, false
	}
	longer := sorted[i:]
	return longer[len(longer)/2], true
}
