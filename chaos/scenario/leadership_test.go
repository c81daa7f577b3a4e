package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTermsIn_readsTheLogOfACoordinator(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 24, 2, 0, time.UTC)
	log := strings.Join([]string{
		`time=2026-11-22T14:24:02.000Z level=INFO msg=leading component=raftnode replica=c1 term=2`,
		`time=2026-11-22T14:24:02.000Z level=INFO msg=leading component=c1 coordinator=c1 term=2`,
		`time=2026-11-22T14:24:05.000Z level=INFO msg="leading no longer" component=c1 coordinator=c1 term=2 why="context canceled"`,
		`time=2026-11-22T14:24:07.000Z level=INFO msg=leading component=c1 coordinator=c1 term=4`,
		"",
	}, "\n")
	got, err := termsIn("c1", log)
	require.NoError(t, err)
	require.Equal(t, []term{
		{who: "c1", from: at, to: at.Add(3 * time.Second)},
		{who: "c1", from: at.Add(5 * time.Second)},
	}, got)
	_, err = termsIn("c1", "time=yesterday level=INFO msg=leading component=c1 coordinator=c1 term=2\n")
	require.ErrorContains(t, err, "log of c1")
}

func TestSteady(t *testing.T) {
	begun := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	end := begun.Add(time.Minute)
	led := func(who string, from, to int) term {
		r := term{who: who, from: begun.Add(time.Duration(from) * time.Second)}
		if to != 0 {
			r.to = begun.Add(time.Duration(to) * time.Second)
		}
		return r
	}
	for name, tc := range map[string]struct {
		all  []term
		want string
	}{
		"nobody leads":                        {nil, "nobody led in 60 s"},
		"one leads since before":              {[]term{led("c1", -30, 0)}, ""},
		"one leads in time":                   {[]term{led("c1", -30, 2), led("c2", 10, 0)}, ""},
		"one leads until after the end":       {[]term{led("c1", 5, 70)}, ""},
		"one leads too late":                  {[]term{led("c1", -30, 2), led("c2", 11, 0)}, "in 60 s led c1 from 0.0 s to 2.0 s, c2 from 11.0 s on"},
		"one leads in time, and not for long": {[]term{led("c1", 5, 50)}, "in 60 s led c1 from 5.0 s to 50.0 s"},
		"only earlier and later ones":         {[]term{led("c1", -30, -5), led("c2", 61, 0)}, "nobody led in 60 s"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, steady(tc.all, begun, end, 10*time.Second)) })
	}
}

func TestLost(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	end := at.Add(time.Minute)
	later, earlier := at.Add(time.Second), at.Add(-time.Second)
	require.Equal(t, at, lost(nil, at, end), "nobody led")
	require.Equal(t, at, lost([]term{{from: earlier.Add(-time.Second), to: earlier}, {from: later}}, at, end), "nobody led then")
	require.Equal(t, later, lost([]term{{from: earlier, to: later}, {from: later.Add(time.Second)}}, at, end))
	require.Equal(t, end, lost([]term{{from: earlier}}, at, end))
}
