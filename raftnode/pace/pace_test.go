package pace

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const paceBase = 400 * time.Millisecond

// paced is a Pace with a clock.
type paced struct {
	*Pace
	now time.Time
}

func newPaced() *paced {
	return &paced{New(paceBase, 16*paceBase), time.Unix(1_000_000, 0)}
}

func (p *paced) pass(d time.Duration) *paced { p.now = p.now.Add(d); return p }

// took simulates a round trip that takes d.
func (p *paced) took(d time.Duration) *paced {
	p.pass(d).Delayed(p.now, d)
	return p
}

// under lets time pass with a leader, and alone without one.
func (p *paced) under(d time.Duration) *paced { return p.look(d, p.UnderLeader) }
func (p *paced) alone(d time.Duration) *paced { return p.look(d, p.Leaderless) }

func (p *paced) look(d time.Duration, see func(time.Time)) *paced {
	for end := p.now.Add(d); p.now.Before(end); p.pass(paceBase / 8) {
		see(p.now)
	}
	return p
}

func TestPace(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		happens func(p *paced)
		want    time.Duration
	}{
		"nothing": {func(*paced) {}, paceBase},
		"one answer took long: a process was stopped, a link was cut": {
			func(p *paced) { p.under(time.Second).took(4 * time.Second) }, paceBase,
		},
		"two did, and it is twice as long as the shorter": {
			func(p *paced) { p.under(time.Second).took(1900 * ms).took(700 * ms) }, 4 * paceBase,
		},
		"two did, with others between them": {
			func(p *paced) { p.under(time.Second).took(700 * ms).took(ms).took(ms).took(700 * ms) }, 4 * paceBase,
		},
		"two did, and the second had begun before the first was there: one cause": {
			func(p *paced) {
				p.under(time.Second).took(time.Second).pass(10 * ms)
				p.Delayed(p.now, time.Second)
			}, paceBase,
		},
		"two did, far apart": {
			func(p *paced) { p.under(time.Second).took(time.Second).under(delaysWithin).took(time.Second) }, paceBase,
		},
		"they took half the timeout, and it does": {
			func(p *paced) { p.under(time.Second).took(200 * ms).took(200 * ms) }, paceBase,
		},
		"they took a little more": {
			func(p *paced) { p.under(time.Second).took(201 * ms).took(201 * ms) }, 2 * paceBase,
		},
		"they took longer and longer": {
			func(p *paced) {
				p.under(time.Second).took(2 * time.Second).took(2 * time.Second).took(12 * time.Second).took(12 * time.Second)
			}, 16 * paceBase,
		},
		"it was stopped, and soon again": {
			func(p *paced) { p.under(time.Second).took(4 * time.Second).took(4 * time.Second).took(4 * time.Second) }, paceBase,
		},
		"an election goes on": {
			func(p *paced) { p.alone(3 * paceBase) }, paceBase,
		},
		"elections fail": {
			func(p *paced) { p.alone(5 * paceBase) }, 2 * paceBase,
		},
		"elections fail for minutes, and nobody ever answers: replicas cut off from each other": {
			func(p *paced) { p.alone(5 * time.Minute) }, 4 * paceBase,
		},
		"elections fail while answers are slow": {
			func(p *paced) { p.alone(time.Second).took(2 * time.Second).took(2 * time.Second).alone(time.Second) }, 16 * paceBase,
		},
		"answers were slow until there was a leader: the others had just started": {
			func(p *paced) {
				p.alone(time.Second).took(2 * time.Second).took(2 * time.Second).under(5 * paceBase)
			}, paceBase,
		},
		"answers are slow under the leader too": {
			func(p *paced) {
				p.alone(time.Second).took(600 * ms).took(600 * ms)
				for range 10 {
					p.under(100 * ms).took(600 * ms)
				}
				p.under(5 * paceBase)
			}, 4 * paceBase,
		},
		"it is calm, not for long yet": {
			func(p *paced) { p.under(time.Second).took(time.Second).took(time.Second).under(CalmFor - ms) }, 8 * paceBase,
		},
		"it is calm": {
			func(p *paced) { p.under(time.Second).took(time.Second).took(time.Second).under(CalmFor + 100*ms) }, 4 * paceBase,
		},
		"it stays calm": {
			func(p *paced) {
				p.under(time.Second).took(time.Second).took(time.Second).under(CalmFor + 3*HalvePace)
			}, paceBase,
		},
		"an eighth of the timeout is not calm": {
			func(p *paced) {
				p.under(time.Second).took(time.Second).took(time.Second)
				for range 100 {
					p.under(time.Second).took(8 * paceBase / notable)
				}
			}, 8 * paceBase,
		},
		"the leader was silent twice, and is the same": {
			func(p *paced) {
				for range 3 {
					p.Heard(p.now, "c1", 5, p.now)
					p.under(0).pass(time.Second)
				}
				p.Heard(p.now, "c1", 5, p.now)
			}, 8 * paceBase,
		},
		"the leader was silent, and then there was another one": {
			func(p *paced) {
				for term := range uint64(9) {
					p.Heard(p.now, "c1", term, p.now)
					p.pass(time.Second)
				}
			}, paceBase,
		},
		"nothing was heard since the last look": {
			func(p *paced) {
				at := p.now
				for range 100 {
					p.Heard(p.now, "c1", 5, at)
					p.pass(50 * ms)
				}
			}, paceBase,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPaced()
			tc.happens(p)
			require.Equal(t, tc.want, p.Timeout())
		})
	}
}

// With any events the timeout must be the base doubled a number of times, and within its limit. Only delays and the
// lack of a leader may lengthen it, and only time under a leader may shorten it. After a calm time under a leader it
// must be the base.
func TestPace_always(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := newPaced()
		longest := time.Duration(0)
		for range 500 {
			before := p.Timeout()
			switch r.IntN(4) {
			case 0:
				d := time.Duration(r.ExpFloat64() * float64(500*time.Millisecond))
				longest = max(longest, d)
				p.took(d)
				require.GreaterOrEqual(t, p.Timeout(), before, "a delay made it shorter")
				require.LessOrEqual(t, p.Timeout(), max(before, 2*margin*longest), "longer than any delay asks for")
			case 1:
				p.alone(time.Duration(r.Int64N(int64(3 * time.Second))))
				require.GreaterOrEqual(t, p.Timeout(), before, "shorter without a leader")
				require.LessOrEqual(t, p.Timeout(), max(before, blind*paceBase), "elections alone say little")
			case 2:
				p.under(time.Duration(r.Int64N(int64(3 * time.Second))))
				require.LessOrEqual(t, p.Timeout(), before, "longer under a leader")
			case 3:
				p.Heard(p.now, "c1", uint64(r.IntN(3)), p.now.Add(-time.Duration(r.Int64N(int64(time.Second)))))
				require.GreaterOrEqual(t, p.Timeout(), before, "contact made it shorter")
			}
			doubled := p.Timeout() / paceBase
			require.Zero(t, p.Timeout()%paceBase)
			require.Equal(t, 1, bits.OnesCount64(uint64(doubled)))
			require.LessOrEqual(t, doubled, time.Duration(Most))
		}
		p.under(CalmFor + 5*HalvePace)
		require.Equal(t, paceBase, p.Timeout(), "seed %d", seed)
	}
}

func TestRoundTrips_aMajorityCounts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	two, four := []string{"b", "c"}, []string{"b", "c", "d", "e"}
	type answer struct {
		from string
		took time.Duration
	}
	for name, tc := range map[string]struct {
		voters  []string
		answers []answer
		want    time.Duration // of the last answer; 0: unknown
	}{
		"one of two others is enough":     {two, []answer{{"b", 5}}, 5},
		"the faster of two":               {two, []answer{{"b", 5}, {"c", 900}}, 5},
		"the newest of each":              {two, []answer{{"b", 5}, {"c", 900}, {"b", 700}}, 700},
		"one of four is not":              {four, []answer{{"b", 5}}, 0},
		"the second of four":              {four, []answer{{"b", 5}, {"c", 900}, {"d", 7}}, 7},
		"who has no vote does not count":  {two, []answer{{"x", 5}}, 0},
		"who is silent now may not count": {four, []answer{{"b", 5}, {"", 0}, {"c", 7}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			trips := RoundTrips{Voters: tc.voters}
			var got time.Duration
			at := now
			for _, a := range tc.answers {
				if a.from == "" {
					at = at.Add(delaysWithin + 1)
					continue
				}
				got, _ = trips.Answered(at, a.from, a.took)
			}
			require.Equal(t, tc.want, got)
		})
	}
}
