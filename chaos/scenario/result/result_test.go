package result

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResult_eachPromiseCanBeBroken(t *testing.T) {
	require.NoError(t, Result{}.Broken())
	fields := []func(*Result) *[]string{
		func(v *Result) *[]string { return &v.Harmed },
		func(v *Result) *[]string { return &v.Lost },
		func(v *Result) *[]string { return &v.Doubled },
		func(v *Result) *[]string { return &v.DoubleLive },
		func(v *Result) *[]string { return &v.Lineage },
		func(v *Result) *[]string { return &v.Leaked },
		func(v *Result) *[]string { return &v.Leaderless },
		func(v *Result) *[]string { return &v.Flows },
		func(v *Result) *[]string { return &v.Logs },
	}
	require.Len(t, Result{}.promises(), len(fields))
	for _, field := range fields {
		v := Result{Scenario: "one"}
		*field(&v) = []string{"it happened"}
		require.ErrorContains(t, v.Broken(), "it happened")
		require.ErrorContains(t, Sum("all", Result{}, v).Broken(), "one: it happened", "nothing is lost in the sum")
		require.Equal(t, 1, strings.Count(v.Report(), "BROKEN"))
	}
}

func TestResult_whatWasNotJudgedIsNotKept(t *testing.T) {
	judged := Result{Scenario: "one", Judged: true}
	require.NotContains(t, judged.Report(), "unknown")
	require.NotContains(t, Result{Scenario: "one"}.Report(), "kept")
	require.Contains(t, Sum("all", judged, judged).Report(), "kept")
	require.NotContains(t, Sum("all", judged, Result{}).Report(), "kept")
	require.NotContains(t, Sum("all").Report(), "kept")
}

func TestResult_figuresAreOneLineOfKeysAndValues(t *testing.T) {
	v := Result{Scenario: "kill-leader", Outages: []time.Duration{3 * time.Second, time.Second, 2 * time.Second}}
	v.Fault("kill-leader")
	text := v.String()
	require.NotContains(t, text, "\n")
	for _, field := range strings.Fields(text) {
		require.Regexp(t, `^[a-z0-9_]+=\S+$`, field)
	}
	require.Contains(t, text, "outage_p50_ms=2000 outage_p99_ms=3000 outage_max_ms=3000")
	require.Contains(t, text, "faults=kill-leader:1 ")
	require.Contains(t, Result{}.String(), "faults=none ")
}
