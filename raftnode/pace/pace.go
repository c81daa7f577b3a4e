// Package pace decides how long a replica waits for the others, from the delays that it observes. It has no clock,
// goroutine or randomness: its callers say when things happened.
//
// Guarantees: on a machine that is fast enough the timeout is the base, and it returns to the base after a slow machine
// has become fast again. Stopped processes and cut links do not lengthen it, however often they occur. It never exceeds
// a limit.
//
// Not guaranteed: that replicas have the same timeout. Safety does not depend on it.
package pace

import (
	"slices"
	"time"
)

const (
	// margin is the least ratio of a timeout to the longest delay. The timeout is doubled until it has this ratio.
	margin = 2
	// notable is the ratio of the timeout to the shortest delay that is notable. Without notable delays even half of
	// the timeout would be four times as long as the longest delay.
	notable = 8
	// Most is the largest ratio of the timeout to the base, unless another one is configured.
	Most = 16
	// blind is the same for a timeout that only failed elections lengthen. They do not show which timeout would be long
	// enough. And replicas on fast machines that were cut off from each other should elect a leader soon after the cut.
	blind = 4

	// A delay counts only if there was another one within delaysWithin before it: a process that was stopped once, or a
	// link that was cut, does not mean that the machine is slow.
	delaysWithin = 15 * time.Second
	// A delay of more than stops timeouts does not count, so that a process that is stopped repeatedly does not count
	// as slow either. A slow machine has shorter delays before that, which lengthen the timeout.
	stops = 5
	// The timeout is halved after CalmFor without a notable delay, and then again after each HalvePace.
	CalmFor   = 20 * time.Second
	HalvePace = 3 * time.Second
)

// Pace decides how long a replica waits for the others: the base on a machine that is fast enough, and up to most on a
// slower one.
//
// Two things lengthen the timeout. The first is delays of round trips that succeeded in the end: only they prove that a
// leader or a voter was given up too soon. The second is elections that failed because answers were missing. Soon after
// there is a leader, the timeout is no longer lengthened by anything that happened without one, because the cause may
// have been replicas that started one after the other, or a cut.
//
// Each replica decides for itself. It is safe if their timeouts differ: a replica with a short timeout first asks the
// others whether they would vote for it, and replicas that hear a leader would not.
type Pace struct {
	base, most time.Duration
	// measured is the timeout because of delays while there was a leader, and guessed the timeout because of delays and
	// failed elections without a leader.
	measured, guessed time.Duration
	// largest is the longest recent delay, with the time at which it was noted.
	largest delay
	// noted is the time of the last notable delay, and halved the time at which measured was last halved.
	noted, halved time.Time
	// alone is the time since which no replica leads, or at which guessed was last lengthened. led is the time since
	// which a replica leads.
	alone, led time.Time
	// contact is the last contact with the leader of a term.
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

// New returns the Pace of a machine that is fast enough.
func New(base, most time.Duration) *Pace {
	return &Pace{base: base, most: max(base, most), measured: base, guessed: base}
}

// Timeout returns how long to wait.
func (p *Pace) Timeout() time.Duration { return max(p.measured, p.guessed) }

// Longest returns the longest recent delay.
func (p *Pace) Longest() time.Duration { return p.largest.took }

// Lengthen sets the timeout, as delays of half of it would.
func (p *Pace) Lengthen(now time.Time, timeout time.Duration) {
	p.measured, p.noted = max(timeout, p.base), now
}

// Delayed notes a round trip that has just succeeded, and how long it took.
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
		// Both delays may have the same cause: for example, all messages that waited for a link arrive at once.
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

// Heard notes the time of the last contact with a leader, and must be called regularly. Heartbeats and calls of Heard
// come several times in a quarter of the base.
func (p *Pace) Heard(now time.Time, leader string, term uint64, at time.Time) {
	before := p.contact
	p.contact = leaderContact{leader, term, at}
	if late := at.Sub(before.at) - p.base/4; before.leader == leader && before.term == term && late > 0 {
		p.Delayed(now, late)
	}
}

// Leaderless notes that no leader is known. If this lasts for four timeouts, in which an election and its repetition
// fit, the timeout is doubled.
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

// UnderLeader notes that there is a leader with contact to this replica, or that this replica leads.
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

// RoundTrips has the times that the other voters last took to answer.
type RoundTrips struct {
	// Voters lists the addresses of the other voters.
	Voters []string
	last   map[string]delay
}

// Answered notes that a peer answered, and returns the time within which a majority had answered: this replica, and the
// fastest of the others. ok is false if fewer have answered recently.
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
	others := (len(r.Voters) + 1) / 2 // more than half together with this replica
	if len(all) < others {
		return 0, false
	}
	slices.Sort(all)
	return all[others-1], true
}
