package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVerdict_eachPromiseCanBeBroken(t *testing.T) {
	require.NoError(t, Verdict{}.Broken())
	fields := []func(*Verdict) *[]string{
		func(v *Verdict) *[]string { return &v.Harmed },
		func(v *Verdict) *[]string { return &v.Lost },
		func(v *Verdict) *[]string { return &v.Doubled },
		func(v *Verdict) *[]string { return &v.DoubleLive },
		func(v *Verdict) *[]string { return &v.Lineage },
		func(v *Verdict) *[]string { return &v.Leaked },
		func(v *Verdict) *[]string { return &v.Leaderless },
		func(v *Verdict) *[]string { return &v.Logs },
	}
	require.Len(t, Verdict{}.promises(), len(fields))
	for _, field := range fields {
		v := Verdict{Scenario: "one"}
		*field(&v) = []string{"it happened"}
		require.ErrorContains(t, v.Broken(), "it happened")
		require.ErrorContains(t, Sum("all", Verdict{}, v).Broken(), "one: it happened", "nothing is lost in the sum")
		require.Equal(t, 1, strings.Count(v.Report(), "BROKEN"))
	}
}

func TestVerdict_whatWasNotJudgedIsNotKept(t *testing.T) {
	judged := Verdict{Scenario: "one", Judged: true}
	require.NotContains(t, judged.Report(), "unknown")
	require.NotContains(t, Verdict{Scenario: "one"}.Report(), "kept")
	require.Contains(t, Sum("all", judged, judged).Report(), "kept")
	require.NotContains(t, Sum("all", judged, Verdict{}).Report(), "kept")
	require.NotContains(t, Sum("all").Report(), "kept")
}

func TestVerdict_figuresAreOneLineOfKeysAndValues(t *testing.T) {
	v := Verdict{Scenario: "kill-leader", Outages: []time.Duration{3 * time.Second, time.Second, 2 * time.Second}}
	v.Fault("kill-leader")
	text := v.String()
	require.NotContains(t, text, "\n")
	for _, field := range strings.Fields(text) {
		require.Regexp(t, `^[a-z0-9_]+=\S+$`, field)
	}
	require.Contains(t, text, "outage_p50_ms=2000 outage_p99_ms=3000 outage_max_ms=3000")
	require.Contains(t, text, "faults=kill-leader:1 ")
	require.Contains(t, Verdict{}.String(), "faults=none ")
}
