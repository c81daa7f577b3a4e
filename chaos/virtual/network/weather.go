package network

import (
	"math/rand/v2"
	"time"
)

// Weather is what a link does to what passes it, in one direction. The zero value is a perfect link.
type Weather struct {
	// Cut holds everything back: streams wait, as TCP would have them wait, packets are gone.
	Cut bool
	// Delay and up to Jitter more is how long everything is in flight.
	Delay, Jitter time.Duration
	// Loss is the part of all packets that is lost. A lost piece of a stream is sent again, which takes time.
	Loss float64
	// Double is the part of the packets that arrives twice.
	Double float64
	// Stall is the part of the pieces that is held up for StallFor.
	Stall    float64
	StallFor time.Duration
}

// resend is how long TCP waits before it sends a lost piece again, the first time; it doubles the wait each time.
const resend = 200 * time.Millisecond

// transit is how long one piece of a stream is in flight.
func (w *Weather) transit(r *rand.Rand) time.Duration {
	d := w.Delay
	if w.Jitter > 0 {
		d += time.Duration(r.Int64N(int64(w.Jitter)))
	}
	if w.Loss > 0 {
		for again := resend; r.Float64() < w.Loss && again < time.Minute; again *= 2 {
			d += again
		}
	}
	if w.Stall > 0 && r.Float64() < w.Stall {
		d += w.StallFor
	}
	return d
}

// copies says when a packet arrives; it may be never, or more than once.
func (w *Weather) copies(r *rand.Rand) []time.Duration {
	one := func() time.Duration {
		d := w.Delay
		if w.Jitter > 0 {
			d += time.Duration(r.Int64N(int64(w.Jitter)))
		}
		if w.Stall > 0 && r.Float64() < w.Stall {
			d += w.StallFor
		}
		return d
	}
	if w.Cut || (w.Loss > 0 && r.Float64() < w.Loss) {
		return nil
	}
	if w.Double > 0 && r.Float64() < w.Double {
		return []time.Duration{one(), one()}
	}
	return []time.Duration{one()}
}
