package fanout

import "maps"

// Place is how far a reader has come: it has seen everything of the epochs before, and of this one what is at or before
// the offset of each part. Of logs, epochs are attempts and parts are ranks.
type Place struct {
	Epoch   uint64
	Offsets map[uint16]uint64
}

func (p Place) clone() Place { return Place{p.Epoch, maps.Clone(p.Offsets)} }

// pass goes on to a mark.
func (p *Place) pass(m *Mark) {
	if m.Epoch > p.Epoch {
		p.Epoch, p.Offsets = m.Epoch, nil
	}
	if m.Offset > 0 && m.Epoch == p.Epoch {
		if p.Offsets == nil {
			p.Offsets = map[uint16]uint64{}
		}
		p.Offsets[m.Part] = m.Offset
	}
}

// seen says that whoever is here has seen what ends at the mark.
func (p Place) seen(m *Mark) bool {
	return m.Epoch < p.Epoch || m.Epoch == p.Epoch && m.Offset <= p.Offsets[m.Part]
}

// has says that whoever is here has seen all that whoever is at q has.
func (p Place) has(q Place) bool {
	if p.Epoch != q.Epoch {
		return p.Epoch > q.Epoch
	}
	for part, offset := range q.Offsets {
		if p.Offsets[part] < offset {
			return false
		}
	}
	return true
}

// ahead is about how much lies between q and p, when p is further; else 0.
func (p Place) ahead(q Place) uint64 {
	switch {
	case p.Epoch < q.Epoch:
		return 0
	case p.Epoch > q.Epoch:
		return (p.Epoch - q.Epoch) * farAhead
	}
	var mine, theirs uint64
	for _, offset := range p.Offsets {
		mine += offset
	}
	for _, offset := range q.Offsets {
		theirs += offset
	}
	return mine - min(mine, theirs)
}

// farAhead is more than near: epochs apart is never near.
const farAhead = 1 << 20
