package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// told is a call with its answer, as one client makes them one after another.
type told struct {
	action Action
	answer Answer
}

func TestHistory_oneClient(t *testing.T) {
	got := func(p Phase, revision uint64) told { return told{Get, Answer{Phase: p, Revision: revision}} }
	for name, test := range map[string]struct {
		calls []told
		legal bool
	}{
		"a job that runs to its end":          {[]told{{Submit, Answer{}}, got(Live, 3), got(Live, 5), got(Succeeded, 9)}, true},
		"an acknowledged submit that is lost": {[]told{{Submit, Answer{}}, {Get, Answer{Outcome: Refused}}}, false},
		"a submit that came to nothing":       {[]told{{Submit, Answer{Outcome: Unknown}}, {Get, Answer{Outcome: Refused}}}, true},
		"a submit that came late":             {[]told{{Submit, Answer{Outcome: Unknown}}, {Get, Answer{Outcome: Refused}}, got(Live, 7)}, true},
		"a terminal state that was not":       {[]told{{Submit, Answer{}}, got(Failed, 4), got(Live, 6)}, false},
		"a read of the past":                  {[]told{{Submit, Answer{}}, got(Live, 6), got(Live, 5)}, false},
		"a cancel that was forgotten":         {[]told{{Submit, Answer{}}, {Cancel, Answer{}}, got(Live, 9)}, false},
		"a cancel that came too late":         {[]told{{Submit, Answer{}}, {Cancel, Answer{Outcome: Refused}}, got(Succeeded, 9)}, true},
		"a cancel refused for no reason":      {[]told{{Submit, Answer{}}, {Cancel, Answer{Outcome: Refused}}, got(Live, 9)}, false},
		"a retry":                             {[]told{{Submit, Answer{}}, got(Failed, 3), {Retry, Answer{}}, got(Live, 8)}, true},
		"a retry of what runs":                {[]told{{Submit, Answer{}}, got(Live, 3), {Retry, Answer{}}, got(Live, 8)}, true},
		"a retry of what is being canceled":   {[]told{{Submit, Answer{}}, {Cancel, Answer{}}, got(Canceling, 4), {Retry, Answer{Outcome: Refused}}, got(Canceling, 4), got(Canceled, 9)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{}
			for _, c := range test.calls {
				h.Begin(1, "job", c.action)(c.answer)
			}
			found := h.Linearizable(time.Minute)
			if test.legal {
				require.Empty(t, found)
			} else {
				require.NotEmpty(t, found)
			}
		})
	}
}

func TestWorld_whoMayNotLive(t *testing.T) {
	for name, test := range map[string]struct {
		second Life
		want   string
	}{
		"the next attempt":               {Life{Job: "a", Attempt: 2, Token: 20, Node: "n2"}, "I2"},
		"the same task":                  {Life{Job: "a", Attempt: 1, Token: 10, Node: "n2"}, "twice"},
		"another rank of the gang":       {Life{Job: "a", Attempt: 1, Token: 10, Rank: 1, Node: "n2"}, ""},
		"another job":                    {Life{Job: "b", Attempt: 1, Token: 11, Node: "n2"}, ""},
		"another job on a GPU in use":    {Life{Job: "b", Attempt: 1, Token: 11, Node: "n1", GPUs: []string{"n1/0"}}, "I1"},
		"an attempt that was superseded": {Life{Job: "a", Attempt: 1, Token: 5, Node: "n2"}, "I3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Findings{}
			w := NewWorld(f)
			first := w.Start(Life{Job: "a", Attempt: 1, Token: 10, Node: "n1", GPUs: []string{"n1/0"}})
			w.Start(test.second)
			if test.want == "" {
				require.Empty(t, f.All())
			} else {
				require.Contains(t, f.All()[len(f.All())-1], test.want)
			}
			w.End(first, 0, "")
		})
	}
}
