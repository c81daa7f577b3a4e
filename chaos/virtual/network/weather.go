package network

import (
	"math/rand/v2"
	"time"
)

// Weather describes how a link, in one direction, delays and loses data. The zero value is a perfect link.
type Weather struct {
	// Cut holds back all data: streams wait, as with TCP, and packets are lost.
	Cut bool
	// Delay, plus up to Jitter, is how long data is in flight.
	Delay, Jitter time.Duration
	// Loss is the fraction of packets that are lost. A lost piece of a stream is sent again, which takes time.
	Loss float64
	// Double is the fraction of packets that arrive twice.
	Double float64
	// Stall is the fraction of pieces that are delayed by StallFor.
	Stall    float64
	StallFor time.Duration
}

// resend is how long TCP waits before it first sends a lost piece again; the wait doubles each time.
const resend = 200 * time.Millisecond

// transit draws how long one piece of a stream is in flight.
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

// copies draws the delays of the copies of a packet that arrive: none, one or two.
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
