// Package pace decides how long a replica waits for the others, from what it sees of them. It has no clock, goroutine or
// randomness of its own: it is told when things happened.
//
// Guarantees: on a machine that keeps up the timeouts are the base, and come back to it when a slow machine has become quiet.
// Stops and cuts, however often, do not lengthen them. They never exceed a limit.
//
// Not guaranteed: that replicas agree. Nothing is unsafe when they do not.
package pace

import (
	"slices"
	"time"
)

const (
	// margin is how many times the longest delay a timeout must be. The
	// timeout is doubled until it is.
	margin = 2
	// notable: a delay is notable from this fraction of the timeout on. Without
	// notable delays half the timeout would still be four times what is needed.
	notable = 8
	// Most is how many times the base the timeout may become, unless it is
	// configured.
	Most = 16
	// blind is the same for failed elections alone. They do not say how long is
	// long enough. And replicas on quiet machines that were cut off from each other
	// should find a leader soon after the cut.
	blind = 4

	// A delay counts when there was another one before it, within delaysWithin: a
	// process that was stopped once, or a link that was cut, is no slow machine.
	delaysWithin = 15 * time.Second
	// stops: nor is one that was stopped again and again. A delay of more than so
	// many timeouts is a stop: a slow machine shows shorter ones first, which
	// lengthen the timeout.
	stops = 5
	// The timeout is halved after CalmFor without a notable delay, and every
	// HalvePace from then on.
	CalmFor   = 20 * time.Second
	HalvePace = 3 * time.Second
)

// Pace says how long a replica waits for the others: a base on a machine that
// keeps up, and up to most on one that does not. It is told what this replica
// sees and when, and has no clock, goroutine or randomness of its own.
//
// Two things lengthen the timeout. One is delays: how long round trips took that
// succeeded in the end. Only they prove that a leader or a voter was given up too
// soon. The other is elections that failed for lack of answers. What was learnt
// without a leader is forgotten soon after there is one: the cause may have been
// replicas that started one after the other, or a cut.
//
// Each replica decides for itself. Nothing is unsafe when they disagree: a
// replica with a short timeout asks the others whether they would vote for it,
// and those who hear a leader would not.
type Pace struct {
	base, most time.Duration
	// measured is the timeout that delays under a leader ask for, guessed the one
	// that was found without one.
	measured, guessed time.Duration
	// largest is the longest delay lately, at the time at which it was noted.
	largest delay
	// noted is when the last notable delay was, halved when measured was.
	noted, halved time.Time
	// alone is since when nobody leads, or since guessed was last lengthened;
	// led since when somebody does.
	alone, led time.Time
	// contact is the last one with the leader of a term.
	contact leaderContact
}

type delay struct {
	at   time.Time
	took time.Duration
}

type leaderContact struct {
	leader string
	term   uint64
	at     time.Time
}

// New returns the pace of a machine that keeps up.
func New(base, most time.Duration) *Pace {
	return &Pace{base: base, most: max(base, most), measured: base, guessed: base}
}

// Timeout is how long to wait.
func (p *Pace) Timeout() time.Duration { return max(p.measured, p.guessed) }

// Longest is the longest delay that was noted lately.
func (p *Pace) Longest() time.Duration { return p.largest.took }

// Lengthen makes the timeout at least so long, as delays of half of it would.
func (p *Pace) Lengthen(now time.Time, timeout time.Duration) {
	p.measured, p.noted = max(timeout, p.base), now
}

// Delayed notes how long a round trip took that has just succeeded.
func (p *Pace) Delayed(now time.Time, took time.Duration) {
	if took < p.Timeout()/notable || took > stops*p.Timeout() {
		return
	}
	p.noted = now
	before := p.largest
	switch recent := now.Sub(before.at) <= delaysWithin; {
	case !recent:
		p.largest = delay{now, took}
		return
	case now.Add(-took).Before(before.at):
		// They have one cause, perhaps: what waited for a link, say, comes all at
		// once.
		if took > before.took {
			p.largest.took = took
		}
		return
	case took >= before.took:
		p.largest = delay{now, took}
	}
	enough := &p.measured
	if p.led.IsZero() {
		enough = &p.guessed
	}
	for proven := min(took, before.took); *enough < margin*proven && *enough < p.most; {
		*enough = min(2**enough, p.most)
	}
}

// Heard notes the last contact with a leader, as often as it is looked at. A
// leader speaks, and it is looked at, several times in a quarter of the base.
func (p *Pace) Heard(now time.Time, leader string, term uint64, at time.Time) {
	before := p.contact
	p.contact = leaderContact{leader, term, at}
	if late := at.Sub(before.at) - p.base/4; before.leader == leader && before.term == term && late > 0 {
		p.Delayed(now, late)
	}
}

// Leaderless notes that nobody is known to lead. An election and its repetition
// fit into four timeouts.
func (p *Pace) Leaderless(now time.Time) {
	p.led = time.Time{}
	if p.alone.IsZero() {
		p.alone = now
	}
	if now.Sub(p.alone) < 4*p.Timeout() {
		return
	}
	p.alone = now
	if longer := 2 * p.Timeout(); longer <= min(blind*p.base, p.most) {
		p.guessed = longer
	}
}

// UnderLeader notes that somebody leads and is heard, this replica itself
// included.
func (p *Pace) UnderLeader(now time.Time) {
	p.alone = time.Time{}
	if p.led.IsZero() {
		p.led = now
	}
	if calm := 4 * p.base; now.Sub(p.led) >= calm && now.Sub(p.noted) >= calm {
		p.guessed = p.base
	}
	if p.measured > p.base && now.Sub(p.noted) >= CalmFor && now.Sub(p.halved) >= HalvePace {
		p.measured, p.halved = max(p.measured/2, p.base), now
	}
}

// RoundTrips knows how long the other voters last took to answer.
type RoundTrips struct {
	// Voters are their addresses.
	Voters []string
	last   map[string]delay
}

// Answered notes that a peer answered, and says within how long this replica and
// those who were fastest, a majority together, had answered; ok is false as long
// as not that many did.
func (r *RoundTrips) Answered(now time.Time, peer string, took time.Duration) (majority time.Duration, ok bool) {
	if !slices.Contains(r.Voters, peer) {
		return 0, false
	}
	if r.last == nil {
		r.last = map[string]delay{}
	}
	r.last[peer] = delay{now, took}
	var all []time.Duration
	for _, v := range r.Voters {
		if d, ok := r.last[v]; ok && now.Sub(d.at) <= delaysWithin {
			all = append(all, d.took)
		}
	}
	others := (len(r.Voters) + 1) / 2 // with this replica more than half
	if len(all) < others {
		return 0, false
	}
	slices.Sort(all)
	return all[others-1], true
}
