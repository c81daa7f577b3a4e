package fanout

import "maps"

// Place is the position of a reader: it has seen all earlier epochs, and of this epoch everything up to the offset of each
// part. For logs, epochs are attempts and parts are ranks.
type Place struct {
	Epoch   uint64
	Offsets map[uint16]uint64
}

func (p Place) clone() Place { return Place{p.Epoch, maps.Clone(p.Offsets)} }

// pass moves the place to a mark.
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

// seen reports whether a reader at this place has seen what ends at the mark.
func (p Place) seen(m *Mark) bool {
	return m.Epoch < p.Epoch || m.Epoch == p.Epoch && m.Offset <= p.Offsets[m.Part]
}

// has reports whether a reader at this place has seen everything that a reader at q has.
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

// ahead estimates how much lies between q and p if p is further; otherwise 0.
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

// farAhead is more than near: places in different epochs are never near.
const farAhead = 1 << 20
