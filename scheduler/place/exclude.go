package place

import "github.com/mindcoordinator/mind/fsm/work/domains"

// excluded returns the hosts on a list of domains.CanonicalExclude; nil: none. The result is cached while the nodes of
// the pool stay the same.
func (p *Pool) excluded(list string) bitset {
	if list == "" {
		return nil
	}
	if set, ok := p.excludes[list]; ok {
		return set
	}
	set := newBitset(len(p.hosts))
	for i := range p.hosts {
		if domains.Excludes(list, p.hosts[i].node.ID) {
			set.add(i)
		}
	}
	if len(p.excludes) >= maxExcludes {
		clear(p.excludes)
	}
	if p.excludes == nil {
		p.excludes = map[string]bitset{}
	}
	p.excludes[list] = set
	return set
}

// maxExcludes bounds the cached lists.
const maxExcludes = 1024

// bar excludes hosts from the places of this fit.
func (f *Fit) bar(hosts bitset) {
	if hosts == nil {
		return
	}
	if f.bars == nil {
		f.bars = newBitset(len(f.pool.hosts))
	}
	for w := range hosts {
		f.bars[w] |= hosts[w]
		f.spent[w] |= hosts[w]
	}
}

func (f *Fit) barred(i int) bool { return f.bars != nil && f.bars.has(i) }
