package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func scores(found []Finding) []string {
	var out []string
	for _, f := range found {
		if e := f.Body.GetEvaluation(); e != nil {
			out = append(out, fmt.Sprintf("%s %s %d %s", e.GetBenchmark(), e.GetMetricsJson(), e.GetNumSamples(), e.GetError()))
		}
	}
	return out
}

func TestResultsOfAnEvaluation(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"figures":          {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"f1":1, "accuracy":0.71},"num_samples":100}`, `mmlu {"accuracy":0.71,"f1":1} 100 `},
		"an error":         {`{"event":"evaluation_result","benchmark":"mmlu","error":"no sandbox"}`, `mmlu  0 no sandbox`},
		"both":             {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1},"error":"half"}`, `mmlu {"a":1} 0 half`},
		"Python's NaN":     {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1,"b":NaN}}`, `mmlu {"a":1} 0 `},
		"nothing but NaN":  {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"b":NaN}}`, `mmlu  0 the reported metrics contain no number`},
		"no metrics":       {`{"event":"evaluation_result","benchmark":"mmlu"}`, `mmlu  0 the workload reported no metrics`},
		"a word":           {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":"b"}}`, `mmlu  0 the reported metrics are not a JSON object of numbers`},
		"samples beyond":   {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1},"num_samples":1e300}`, `mmlu {"a":1} 2147483647 `},
		"less than no":     {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1},"num_samples":-5}`, `mmlu {"a":1} 0 `},
		"no benchmark":     {`{"event":"evaluation_result","metrics":{"a":1}}`, ``},
		"samples as words": {`{"event":"evaluation_result","benchmark":"mmlu","num_samples":"all"}`, ``},
		"many figures":     {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"` + strings.Repeat("x", maxResultBytes) + `":1}}`, `mmlu  0 the reported metrics have 16390 bytes; at most 16384 are kept`},
		"a long error":     {`{"event":"evaluation_result","benchmark":"mmlu","error":"` + strings.Repeat("ä", 600) + `"}`, `mmlu  0 ` + strings.Repeat("ä", 512)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			w.announce(c.line)
			require.Equal(t, c.want, strings.Join(scores(w.scan(time.Unix(1000, 0), false)), "\n"))
		})
	}
}

// The next agent reports the results that were not acknowledged, in order and once. It does not report acknowledged
// ones again.
func TestResultsOutliveTheAgent(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	say := func(value int) {
		w.announce(fmt.Sprintf(`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":%d}}`, value))
	}
	say(1)
	say(2)
	found := w.scan(now, false)
	require.Equal(t, []string{`mmlu {"a":1} 0 `, `mmlu {"a":2} 0 `}, scores(found))
	require.Empty(t, scores(w.scan(now, false)))
	found[0].Acked()
	w = w.restarted()
	say(3)
	found = w.scan(now, false)
	require.Equal(t, []string{`mmlu {"a":2} 0 `, `mmlu {"a":3} 0 `}, scores(found))
	for _, f := range found {
		f.Acked()
	}
	w = w.restarted()
	require.Empty(t, scores(w.scan(now, true)), "an older result must not take the place of a newer one")
}

func TestResultsOfOneTaskAreBounded(t *testing.T) {
	w := newWatched(t)
	for i := range maxResults + 5 {
		w.announce(fmt.Sprintf(`{"event":"evaluation_result","benchmark":"b%d","metrics":{"a":1}}`, i))
	}
	require.Len(t, scores(w.scan(time.Unix(1000, 0), false)), maxResults)
}
