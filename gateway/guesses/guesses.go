// Package guesses bounds how many unknown credentials from one address are looked up.
//
// Contract: whoever is about to look up a credential that it does not know calls Begin, and tells the Lookup that it gets what came
// of it. A credential that turns out to be good costs its address nothing; one that nobody issued takes a place of its address,
// which comes back after a while. When an address has no place left, Begin refuses, and says how long to wait.
//
// Guarantees: an address has firstPlaces places for credentials that come for the first time, and againPlaces of their own for
// those that were turned away before and come again after the wait. So a good credential behind the address of somebody who
// guesses (a NAT, a proxy) gets in at its second try, unless the guesser repeats his guesses, too: then the two compete. All
// addresses together have totalPlaces. Memory is bounded by maxAddresses and maxTurnedAway.
//
// Not guaranteed: exactness. Addresses beyond maxAddresses share one entry, and of IPv6 a whole /64 is one address.
package guesses

import (
	"net/netip"
	"sync"
	"time"
)

// Places, and how many of them come back in a second.
const (
	firstPlaces, firstPace = 20, 5
	againPlaces, againPace = 10, 5
	totalPlaces, totalPace = 500, 500
	// inFlight bounds the look-ups of one address that are not decided yet.
	inFlight = 50
)

const (
	maxAddresses  = 10_000
	maxTurnedAway = 16_384
	// wait is what whoever is turned away is told, at least; who comes sooner comes for the first time. forget is how long it
	// is remembered that a credential was turned away.
	wait   = time.Second
	early  = 100 * time.Millisecond
	forget = 30 * time.Second
)

// Outcome is what a look-up came to.
type Outcome int

// The outcomes of a look-up.
const (
	Good      Outcome = iota
	Bad               // nobody issued it
	Undecided         // nobody could say
)

// Limiter keeps the counts.
type Limiter struct {
	mu         sync.Mutex
	addresses  map[string]*address
	others     address // of those for whom there is no room
	swept      time.Time
	total      bucket
	turnedAway map[Digest]time.Time
	// refusals are those of turnedAway and older ones, from the oldest on; next is where that one stands once there are maxTurnedAway.
	refusals []refusal
	next     int
}

type refusal struct {
	credential Digest
	at         time.Time
}

// Digest identifies a credential without telling it.
type Digest [32]byte

type address struct {
	first, again bucket
	inFlight     int
}

// bucket counts the places that are taken. They come back at an even pace.
type bucket struct {
	taken float64
	at    time.Time
}

func (b *bucket) settle(now time.Time, pace float64) {
	if passed := now.Sub(b.at); passed > 0 {
		b.taken = max(0, b.taken-passed.Seconds()*pace)
		b.at = now
	}
}

// untilFree is how long until one place is free; 0: now.
func (b *bucket) untilFree(places, pace float64) time.Duration {
	return time.Duration(max(0, b.taken+1-places) / pace * float64(time.Second))
}

// New makes a limiter.
func New() *Limiter {
	return &Limiter{addresses: map[string]*address{}, turnedAway: map[Digest]time.Time{}}
}

// Lookup is one that may be made.
type Lookup struct {
	limiter *Limiter
	of      *address
	place   *bucket
	digest  Digest
}

// Begin asks whether a credential from an address may be looked up. A nil Lookup says no, and how long to wait; else Done must follow.
func (l *Limiter) Begin(now time.Time, from string, credential Digest) (*Lookup, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.at(now, from)
	a.first.settle(now, firstPace)
	a.again.settle(now, againPace)
	l.total.settle(now, totalPace)
	place, left := &a.first, a.first.untilFree(firstPlaces, firstPace)
	if at, ok := l.turnedAway[credential]; ok && now.Sub(at) >= wait-early && now.Sub(at) < forget {
		if again := a.again.untilFree(againPlaces, againPace); again <= left {
			place, left = &a.again, again
		}
	}
	left = max(left, l.total.untilFree(totalPlaces, totalPace))
	if left > 0 || a.inFlight >= inFlight {
		l.turnAway(now, credential)
		return nil, max(left, wait)
	}
	delete(l.turnedAway, credential)
	place.taken++
	l.total.taken++
	a.inFlight++
	return &Lookup{l, a, place, credential}, 0
}

// Done ends a look-up.
func (k *Lookup) Done(outcome Outcome) {
	l := k.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	k.of.inFlight--
	if outcome != Bad {
		k.place.taken = max(0, k.place.taken-1)
		l.total.taken = max(0, l.total.taken-1)
	}
}

// at finds the entry of an address.
func (l *Limiter) at(now time.Time, from string) *address {
	key := network(from)
	if a := l.addresses[key]; a != nil {
		return a
	}
	if len(l.addresses) >= maxAddresses && now.Sub(l.swept) >= time.Second {
		l.swept = now
		for key, a := range l.addresses {
			a.first.settle(now, firstPace)
			a.again.settle(now, againPace)
			if a.inFlight == 0 && a.first.taken+a.again.taken == 0 {
				delete(l.addresses, key)
			}
		}
	}
	if len(l.addresses) >= maxAddresses {
		return &l.others
	}
	a := &address{}
	l.addresses[key] = a
	return a
}

// network is what counts as one address: whoever has an IPv6 address has its whole /64.
func network(from string) string {
	ip, err := netip.ParseAddr(from)
	if err != nil || ip.Unmap().Is4() {
		return from
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return from
	}
	return prefix.String()
}

// turnAway remembers, from the first time on, that a credential was turned away.
func (l *Limiter) turnAway(now time.Time, credential Digest) {
	if at, ok := l.turnedAway[credential]; ok && now.Sub(at) < forget {
		return
	}
	l.turnedAway[credential] = now
	if len(l.refusals) < maxTurnedAway {
		l.refusals = append(l.refusals, refusal{credential, now})
		return
	}
	// The oldest goes: a flood of 16,000 a second leaves each a second, after which it may come again.
	if old := l.refusals[l.next]; l.turnedAway[old.credential].Equal(old.at) {
		delete(l.turnedAway, old.credential)
	}
	l.refusals[l.next] = refusal{credential, now}
	l.next = (l.next + 1) % maxTurnedAway
}
