package place

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// gatherMissing adds hosts for the ranks that have none (-1), in the order of the ranks. It returns false if there are
// too few. With domains.Same the missing ranks of a segment go to the domain of its other ranks.
func (f *Fit) gatherMissing(queues []queue, hosts []int, missing int) bool {
	f.nodes, f.masks = f.nodes[:0], f.masks[:0]
	if f.between == nil || f.shape.Between != domains.Same {
		f.gather(queues, missing)
		return len(f.nodes) == missing
	}
	given := f.spent
	defer func() { f.spent = given }()
	segment := int(f.shape.Segment)
	if segment == 0 {
		segment = len(hosts)
	}
	chosen := slices.Clone(given)
	for part := range slices.Chunk(hosts, segment) {
		want, first, last := f.between.gap(part)
		if want == 0 {
			continue
		}
		begun := len(f.nodes)
		for d := first; d <= last && len(f.nodes) == begun; d++ {
			f.spent = f.between.outside(chosen, d)
			if f.gather(queues, want); len(f.nodes)-begun < want {
				f.nodes, f.masks = f.nodes[:begun], f.masks[:begun]
			}
		}
		if len(f.nodes) == begun {
			return false
		}
		for _, i := range f.nodes[begun:] {
			chosen.add(i)
		}
	}
	return true
}

// gap returns the number of hosts that a segment lacks, and the range of domains that they may be in: the domain of its
// other hosts, or any.
func (b *between) gap(part []int) (missing, first, last int) {
	first, last = 0, b.none()-1
	for _, i := range part {
		if i < 0 {
			missing++
			continue
		}
		d := int(b.of[i])
		first, last = max(first, d), min(last, d) // if the hosts are in different domains, the range is empty
	}
	return missing, first, last
}

// outside returns a set of hosts together with all hosts that are not in a domain.
func (b *between) outside(set bitset, domain int) bitset {
	out := slices.Clone(set)
	for i, d := range b.of {
		if int(d) != domain {
			out.add(i)
		}
	}
	return out
}
