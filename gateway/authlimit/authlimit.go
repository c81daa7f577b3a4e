// Package authlimit limits how many unknown credentials from one address are looked up.
//
// Contract: before it looks up an unknown credential, a caller calls Begin, and reports the outcome to the Lookup that it
// gets. A valid credential costs its address nothing. A credential that does not exist takes a place of its address, which
// is freed after a while. If an address has no free place, Begin refuses and returns how long to wait.
//
// Guarantees: an address has firstPlaces places for credentials that come for the first time, and againPlaces for
// credentials that were refused before and come again after the wait. So a valid credential that shares its address with an
// attacker (behind a NAT or a proxy) gets in at its second try, unless the attacker repeats guesses, too: then they
// compete. All addresses together have totalPlaces. Memory is bounded by maxAddresses and maxTurnedAway.
//
// Not guaranteed: exactness. Addresses beyond maxAddresses share one entry, and an IPv6 /64 counts as one address.
package authlimit

import (
	"net/netip"
	"sync"
	"time"
)

// Places, and how many of them are freed per second.
const (
	firstPlaces, firstPace = 20, 5
	againPlaces, againPace = 10, 5
	totalPlaces, totalPace = 500, 500
	// inFlight limits the undecided look-ups of one address.
	inFlight = 50
)

const (
	maxAddresses  = 10_000
	maxTurnedAway = 16_384
	// wait is the minimum time that a refused caller is told to wait; a credential that comes sooner counts as new.
	// forget is how long a refused credential is remembered.
	wait   = time.Second
	early  = 100 * time.Millisecond
	forget = 30 * time.Second
)

// Outcome is the result of a look-up.
type Outcome int

// The outcomes of a look-up.
const (
	Good      Outcome = iota
	Bad               // it does not exist
	Undecided         // it could not be checked
)

// Limiter keeps the counts.
type Limiter struct {
	mu         sync.Mutex
	addresses  map[string]*address
	others     address // shared by the addresses beyond maxAddresses
	swept      time.Time
	total      bucket
	turnedAway map[Digest]time.Time
	// refusals are the credentials in turnedAway and older ones, oldest first; next is the index of the oldest once there
	// are maxTurnedAway.
	refusals []refusal
	next     int
}

type refusal struct {
	credential Digest
	at         time.Time
}

// Digest identifies a credential without revealing it.
type Digest [32]byte

type address struct {
	first, again bucket
	inFlight     int
}

// bucket counts the taken places. They are freed at a constant rate.
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

// untilFree returns how long until a place is free; 0: now.
func (b *bucket) untilFree(places, pace float64) time.Duration {
	return time.Duration(max(0, b.taken+1-places) / pace * float64(time.Second))
}

// New makes a limiter.
func New() *Limiter {
	return &Limiter{addresses: map[string]*address{}, turnedAway: map[Digest]time.Time{}}
}

// Lookup is a look-up that may be made.
type Lookup struct {
	limiter *Limiter
	of      *address
	place   *bucket
	digest  Digest
}

// Begin asks whether a credential from an address may be looked up. A nil Lookup means no, with the time to wait; otherwise
// the caller must call Done.
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

// network returns what counts as one address: a client with IPv6 has a whole /64.
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

// turnAway remembers when a credential was first refused.
func (l *Limiter) turnAway(now time.Time, credential Digest) {
	if at, ok := l.turnedAway[credential]; ok && now.Sub(at) < forget {
		return
	}
	l.turnedAway[credential] = now
	if len(l.refusals) < maxTurnedAway {
		l.refusals = append(l.refusals, refusal{credential, now})
		return
	}
	// The oldest is dropped: a flood of 16,000 guesses a second leaves each one second, after which it may come again.
	if old := l.refusals[l.next]; l.turnedAway[old.credential].Equal(old.at) {
		delete(l.turnedAway, old.credential)
	}
	l.refusals[l.next] = refusal{credential, now}
	l.next = (l.next + 1) % maxTurnedAway
}
