// Package worth says what the free capacity of a node is worth to the jobs of a mix.
package worth

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// Mix iterates shapes with the number of jobs that have them. A shape may occur more than once.
type Mix = iter.Seq2[work.Shape, int]

const (
	// maxTerms bounds the cost of a score: only the heaviest shapes of a mix count.
	maxTerms = 160
	// byCopies is the part of a value that counts whole tasks; the rest counts the GPUs that tasks would use if they
	// could be divided.
	byCopies = 0.1
	// byWorth is the weight of the GPUs alone, whatever CPUs and memory are left.
	byWorth = 0.3
)

// Prices give the value of a node's free capacity for the tasks of a mix: the thousandths of GPUs that these tasks are
// expected to be able to use. A task gets the place where this value falls the least.
//
// The value of a node is
//
//	0.3 W + sum over the shapes of the mix: p (0.9 min(W, d C/c, d M/m) + 0.1 d n)
//
// where W is the worth of its free GPUs and of the remainders of shared ones, C and M are the free CPUs and memory, d,
// c and m are the GPUs, CPUs and memory that one task of the shape needs, n is the number of such tasks that would fit
// together, and p is the weight of the shape: its part of the requested GPUs, divided by the part of the cluster that
// could run it. So scarce resources are kept for the jobs that can use nothing else. Only shapes count that may use the
// type of GPU.
//
// The worth of a remainder comes from the duals of a cutting-stock problem over the fractions of the mix.
//
// Prices do not change, so several pools may use them.
type Prices struct {
	// Jobs is the number of jobs that the prices were learned from.
	Jobs  int
	worth [whole + 1]float64 // in thousandths of a GPU
	specs map[string]Terms
}

// term is the contribution of one shape to the value of a node with suitable GPUs.
type term struct {
	weight float64
	gpus   int // whole ones
	milli  int // or a fraction
	demand float64
	// perCPU and perMem are the demand for GPUs that comes with one CPU, and with one MiB.
	perCPU, perMem float64
	cpus, mem      uint32
}

// Terms are those of the shapes that some GPUs suit.
type Terms []term

// machineClass identifies nodes that are equal when they are empty.
type machineClass struct {
	spec      string
	cpus, mem uint32
}

// Learn returns prices for a mix on these nodes; nil if no shape of the mix asks for a GPU. They depend on the mix and
// on the capacity of the empty nodes, not on running tasks.
func Learn(mix Mix, nodes iter.Seq[*work.Node]) *Prices {
	terms, shapes, jobs := termsOf(mix)
	if len(terms) == 0 {
		return nil
	}
	p := &Prices{Jobs: jobs, specs: map[string]Terms{}}
	p.learnWorth(terms)
	count, gpus := map[machineClass]int{}, map[string][]work.GPU{}
	var classes []machineClass
	var last []work.GPU
	var key string
	for n := range nodes {
		if key == "" || !hardware.Same(last, n.GPUs) {
			key, last = hardware.Spec(n.GPUs), n.GPUs
		}
		c := machineClass{key, n.CPUs, n.MemMB}
		if count[c]++; count[c] == 1 {
			classes = append(classes, c)
			gpus[c.spec] = n.GPUs
		}
	}
	suits := map[string][]bool{}
	for spec, g := range gpus { // order-free: one entry each
		suits[spec] = make([]bool, len(terms))
		for i := range terms {
			suits[spec][i] = hardware.Suiting(g, &shapes[i]) != 0
		}
	}
	total := 0.0
	could := make([]float64, len(terms))
	for _, c := range classes {
		n, k := len(gpus[c.spec]), float64(count[c])
		total += k * whole * float64(n)
		for i := range terms {
			if suits[c.spec][i] {
				could[i] += k * terms[i].usable(c.cpus, c.mem, n, nil, whole*float64(n))
			}
		}
	}
	sum := 0.0
	for i := range terms {
		terms[i].weight *= terms[i].demand * total / (could[i] + whole)
		sum += terms[i].weight
	}
	for i := range terms {
		terms[i].weight /= sum
	}
	for spec, suited := range suits { // order-free: one entry each
		for i, ok := range suited {
			if ok {
				p.specs[spec] = append(p.specs[spec], terms[i])
			}
		}
	}
	return p
}

// termsOf returns terms of the heaviest shapes of a mix. Shapes with the same needs on a node have one term.
func termsOf(mix Mix) (terms []term, shapes []work.Shape, jobs int) {
	weights := map[work.Shape]float64{}
	for s, n := range mix {
		if s.NeedsGPU() {
			jobs += n
			n *= max(1, int(s.Nodes))
			s = s.OneTask()
			weights[s] += float64(n)
		}
	}
	shapes = make([]work.Shape, 0, len(weights))
	for s := range weights { // order-free: sorted below
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b work.Shape) int {
		if c := cmp.Compare(weights[b]*float64(b.GPUMilli()), weights[a]*float64(a.GPUMilli())); c != 0 {
			return c
		}
		if work.ClassLess(work.ClassKey{Shape: a}, work.ClassKey{Shape: b}) {
			return -1
		}
		return 1
	})
	shapes = shapes[:min(len(shapes), maxTerms)]
	terms = make([]term, len(shapes))
	for i := range shapes {
		s := &shapes[i]
		t := term{weight: weights[*s], gpus: int(s.GPUs), milli: int(s.FractionMilli), demand: float64(s.GPUMilli()), cpus: s.CPUs, mem: s.MemMB}
		if s.CPUs > 0 {
			t.perCPU = t.demand / float64(s.CPUs)
		}
		if s.MemMB > 0 {
			t.perMem = t.demand / float64(s.MemMB)
		}
		terms[i] = t
	}
	return terms, shapes, jobs
}

// learnWorth prices the remainders of GPUs, by the fractions among the terms.
func (p *Prices) learnWorth(terms []term) {
	var weights [whole]float64
	for i := range terms {
		weights[terms[i].milli] += terms[i].weight
	}
	var sizes []int
	var of []float64
	for size := 1; size < whole; size++ {
		if weights[size] > 0 {
			sizes, of = append(sizes, size), append(of, weights[size])
		}
	}
	p.worth = remainders(sizes, of)
	for i := range p.worth {
		p.worth[i] *= whole
	}
}

// usable returns how many thousandths of the node's GPUs tasks of the shape could use.
func (t *term) usable(cpus, mem uint32, free int, parts []uint16, worth float64) float64 {
	fluid, n := worth, 0
	if t.milli == 0 {
		n = free / t.gpus
	} else {
		n = free * (whole / t.milli)
		for _, left := range parts {
			n += int(left) / t.milli
		}
	}
	copies := t.demand * float64(n)
	if t.cpus > 0 {
		fluid = min(fluid, t.perCPU*float64(cpus))
		copies = min(copies, t.demand*float64(cpus/t.cpus))
	}
	if t.mem > 0 {
		fluid = min(fluid, t.perMem*float64(mem))
		copies = min(copies, t.demand*float64(mem/t.mem))
	}
	return (1-byCopies)*fluid + byCopies*copies
}

// Of returns the terms for some GPUs.
func (p *Prices) Of(gpus []work.GPU) Terms { return p.specs[hardware.Spec(gpus)] }

// Value returns the value of a node's free capacity: free GPUs, remainders of shared ones, CPUs and memory.
func (p *Prices) Value(terms Terms, cpus, mem uint32, free int, parts []uint16) float64 {
	worth := whole * float64(free)
	for _, left := range parts {
		worth += p.worth[left]
	}
	v := byWorth * worth
	for i := range terms {
		v += terms[i].weight * terms[i].usable(cpus, mem, free, parts, worth)
	}
	return v
}
