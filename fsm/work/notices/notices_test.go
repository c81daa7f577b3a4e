package notices

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A URL that does not answer collects one notice of each event at most, and a late answer to a replaced one counts.
func TestNotices_aNewerOneReplacesAnUntoldOne(t *testing.T) {
	n := New(Wanted{URL: "https://hooks.example/1", On: Default})
	over := Moment{Over: true, Failed: true}
	for range 3 {
		n = n.After(Moment{}, over, 1).After(over, Moment{}, 2)
	}
	require.Equal(t, []Notice{{Number: 3, Event: Failed, At: 1}}, n.Untold)
	require.Empty(t, n.Wrong())
	late := n.Told(2, true, "", 9)
	require.Equal(t, n.Untold, late.Untold)
	require.EqualValues(t, 9, late.ToldAt)
	require.Same(t, n, n.Told(2, false, "it answered 500", 9), "an error of one that is not there any more says nothing")
	require.Same(t, n, n.Told(4, true, "", 9))
	given := n.Told(3, true, "given up: it answered 410 Gone", 9)
	require.Empty(t, given.Untold)
	require.Zero(t, given.ToldAt)
}

func TestNotices_wrongOnesAreFound(t *testing.T) {
	for why, n := range map[string]Notices{
		"no URL":        {Wanted: Wanted{On: Default}},
		"no event":      {Wanted: Wanted{URL: "x"}},
		"not counted":   {Wanted: Wanted{URL: "x", On: Default}, Untold: []Notice{{Number: 1, Event: Started}}},
		"not asked for": {Wanted: Wanted{URL: "x", On: Default}, Count: 1, Untold: []Notice{{Number: 1, Event: Waiting}}},
		"twice":         {Wanted: Wanted{URL: "x", On: Default}, Count: 2, Untold: []Notice{{Number: 1, Event: Ended}, {Number: 2, Event: Ended}}},
		"out of order":  {Wanted: Wanted{URL: "x", On: Default}, Count: 2, Untold: []Notice{{Number: 2, Event: Ended}, {Number: 1, Event: Failed}}},
	} {
		require.NotEmpty(t, n.Wrong(), why)
	}
}

func TestNew_takesWhatCanBeTold(t *testing.T) {
	require.Nil(t, New(Wanted{On: Default}))
	require.Nil(t, New(Wanted{URL: "x", On: 1}), "no known event")
	require.Equal(t, DefaultWait, New(Wanted{URL: "x", On: 255, Wait: -5}).Wanted.Wait)
}
