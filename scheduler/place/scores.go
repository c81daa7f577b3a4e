package place

import "github.com/mindcoordinator/mind/fsm/work"

// mostScored is the number of shapes whose scores groups keep. It bounds their memory.
const mostScored = 64

// score is the cost of a task on a host of a group, and the remainder that a fraction should go to.
type score struct {
	cost  float64
	from  uint16
	known bool
}

// shapeScores is for a shape whose scores groups keep, under its number, if more than one Fit has asked for it.
type shapeScores struct{ number, fits int }

// scoresOf returns where groups keep the scores for a shape; nil: they keep none. Jobs that only windows or the number of
// their tasks distinguish share the scores.
func (p *Pool) scoresOf(s *work.Shape) *shapeScores {
	one := s.OneTask()
	one.Loose = s.Loose
	at := p.scored[one]
	if at == nil {
		if len(p.scored) == mostScored {
			return nil
		}
		if p.scored == nil {
			p.scored = map[work.Shape]*shapeScores{}
		}
		at = &shapeScores{number: len(p.scored)}
		p.scored[one] = at
	}
	at.fits++
	return at
}

// forgetScores makes room for the scores of other shapes. No Fit that was made before may be used afterwards.
func (p *Pool) forgetScores() {
	clear(p.scored)
	for _, g := range p.groups { // order-free: each by itself
		clear(g.scores)
	}
}

// score returns the cost of a task on a host of the group, and the remainder of the GPU that a fraction should go to.
func (f *Fit) score(g *group, suited uint64) (float64, uint16) {
	p := f.pool
	if p.learn != nil {
		prices := p.learn()
		p.learn = nil
		p.Reprice(prices)
	}
	if f.scores == nil || f.scores.fits < 2 {
		return p.score(g, &f.shape, suited)
	}
	at := f.scores.number
	if missing := at + 1 - len(g.scores); missing > 0 {
		g.scores = append(g.scores, make([]score, missing)...)
	}
	s := &g.scores[at]
	if !s.known {
		s.cost, s.from = p.score(g, &f.shape, suited)
		s.known = true
	}
	return s.cost, s.from
}
