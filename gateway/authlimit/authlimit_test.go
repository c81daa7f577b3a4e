package authlimit

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)

// credential returns credential number n.
func credential(n int) (d Digest) {
	binary.BigEndian.PutUint64(d[:], uint64(n)+1)
	return d
}

const attacker = "203.0.113.7"

func TestBegin_aFloodOfGuessesIsFewLookups(t *testing.T) {
	l := New()
	looked, n := 0, 0
	for at := time.Duration(0); at < 10*time.Second; at += time.Millisecond {
		n++
		k, wait := l.Begin(start.Add(at), attacker, credential(n))
		if k == nil {
			require.GreaterOrEqual(t, wait, time.Second)
			continue
		}
		looked++
		k.Done(Bad)
		if at < 200*time.Millisecond {
			require.LessOrEqual(t, looked, firstPlaces+1)
		}
	}
	require.InDelta(t, firstPlaces+10*firstPace, looked, 2)
}

func TestBegin_goodCredentialsCostNothing(t *testing.T) {
	l := New()
	for n := range 10_000 {
		k, _ := l.Begin(start, attacker, credential(n))
		require.NotNil(t, k)
		k.Done(Good)
	}
	for n := range 10_000 { // undecided look-ups do not count either
		k, _ := l.Begin(start, attacker, credential(n))
		require.NotNil(t, k)
		k.Done(Undecided)
	}
}

// A user who shares the address of a constant attacker is admitted at a second try after the wait. The user need not be
// the first one when a place is freed, and it does not matter how many others were refused before.
func TestBegin_aGoodCredentialBehindTheAddressOfAGuesser(t *testing.T) {
	for user := range 50 {
		l := New()
		now, n := start, 0
		flood := func(span time.Duration) {
			for end := now.Add(span); now.Before(end); now = now.Add(time.Millisecond) {
				n++
				if k, _ := l.Begin(now, attacker, credential(n)); k != nil {
					k.Done(Bad)
				}
			}
		}
		good := credential(-1000 - user)
		flood(20*time.Second + time.Duration(7*user)*time.Millisecond)
		k, wait := l.Begin(now, attacker, good)
		if k == nil {
			require.Equal(t, time.Second, wait)
			flood(wait)
			k, _ = l.Begin(now, attacker, good)
		}
		require.NotNil(t, k, "user %d", user)
		k.Done(Good)
		other, _ := l.Begin(now, "198.51.100.1", credential(-1))
		require.NotNil(t, other, "another address is not touched")
	}
}

// A guess that is repeated at once does not get a place for repeated credentials, and later repetitions are limited,
// too.
func TestBegin_repeatedGuessesAreBounded(t *testing.T) {
	l := New()
	looked := 0
	for at := time.Duration(0); at < 20*time.Second; at += time.Millisecond {
		if k, _ := l.Begin(start.Add(at), attacker, credential(int(at.Milliseconds())%5000)); k != nil {
			looked++
			k.Done(Bad)
		}
	}
	require.LessOrEqual(t, looked, firstPlaces+againPlaces+20*(firstPace+againPace)+1)
}

func TestBegin_whatIsNotDecidedYetIsBounded(t *testing.T) {
	l := New()
	var begun []*Lookup
	for n := range 1000 {
		if k, _ := l.Begin(start.Add(time.Duration(n)*time.Second), attacker, credential(n)); k != nil {
			begun = append(begun, k)
		}
	}
	require.Len(t, begun, inFlight)
	for _, k := range begun {
		k.Done(Good)
	}
	k, _ := l.Begin(start.Add(time.Hour), attacker, credential(1))
	require.NotNil(t, k)
}

func TestBegin_manyAddresses(t *testing.T) {
	l := New()
	looked := 0
	for n := range 100_000 {
		from := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
		for try := range 3 {
			if k, _ := l.Begin(start, from, credential(3*n+try)); k != nil {
				looked++
				k.Done(Bad)
			}
		}
	}
	require.Equal(t, totalPlaces, looked)
	require.LessOrEqual(t, len(l.addresses), maxAddresses)
	require.LessOrEqual(t, len(l.turnedAway), maxTurnedAway)
	// When these are forgotten, there is room again.
	k, _ := l.Begin(start.Add(time.Hour), "192.0.2.1", credential(-1))
	require.NotNil(t, k)
	require.Contains(t, l.addresses, "192.0.2.1")
}

func TestNetwork(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "::ffff:192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff::1": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "pipe": "pipe", "": "",
	} {
		require.Equal(t, want, network(from), from)
	}
}
