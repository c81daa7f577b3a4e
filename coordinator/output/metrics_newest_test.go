package output

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/numbers"
)

func TestNewestMetrics_areTheNewestOfEachName(t *testing.T) {
	var n newestMetrics
	for _, line := range []string{`{"step":1,"loss":2.5,"eval":{"a":1,"b":2}}`, "no JSON", `[1]`, `{"step":2,"eval":{"a":3},"note":null}`, `{"loss":"NaN"}`} {
		n.take(line)
	}
	got, err := n.read()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"step": 2.0, "loss": "NaN", "eval": map[string]any{"a": 3.0}, "note": nil}, got.AsMap())
}

// A number that no double holds is null, and hides no other.
func TestNewestMetrics_haveNoNumbersOutOfRange(t *testing.T) {
	var n newestMetrics
	n.take(`{"step":1,"big":1e400,"deep":{"big":[-1e400,2]},"n":9007199254740993}`)
	got, err := n.read()
	require.NoError(t, err)
	text, err := numbers.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, `{"big":null,"deep":{"big":[null,2]},"n":9007199254740993,"step":1}`, string(text))
}

// A program may write any number of names, and values of any length. Reading its metrics must not make a coordinator
// keep all of them.
func TestNewestMetrics_areBounded(t *testing.T) {
	var names, long newestMetrics
	for i := range 3 * maxMetricNames {
		names.take(fmt.Sprintf(`{"m%d":%d}`, i, i))
	}
	names.take(`{"m7":-1}`)
	got, err := names.read()
	require.NoError(t, err)
	require.Len(t, got.GetFields(), maxMetricNames)
	require.EqualValues(t, -1, got.AsMap()["m7"], "what is known is brought up to date")
	for i := range 100 {
		long.take(fmt.Sprintf(`{"a":%d,"m%d":%q}`, i, i, strings.Repeat("x", 100_000)))
		require.LessOrEqual(t, long.bytes, maxMetricBytes)
	}
	got, err = long.read()
	require.NoError(t, err)
	require.EqualValues(t, 99, got.AsMap()["a"])
	require.Len(t, got.GetFields(), 11)
	long.take(fmt.Sprintf(`{"m1":%q}`, strings.Repeat("x", 900_000)))
	got, err = long.read()
	require.NoError(t, err)
	require.NotContains(t, got.AsMap(), "m1", "an old value does not pass for the newest")
}
