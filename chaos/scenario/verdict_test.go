package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/workload"
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
	v.fault("kill-leader")
	text := v.String()
	require.NotContains(t, text, "\n")
	for _, field := range strings.Fields(text) {
		require.Regexp(t, `^[a-z0-9_]+=\S+$`, field)
	}
	require.Contains(t, text, "outage_p50_ms=2000 outage_p99_ms=3000 outage_max_ms=3000")
	require.Contains(t, text, "faults=kill-leader:1 ")
	require.Contains(t, Verdict{}.String(), "faults=none ")
}

func code(n int) *int { return &n }

func TestHarm_saysWhatShouldNotHaveHappened(t *testing.T) {
	once := &steadyJob{id: "job_1", ranks: 1, spec: workload.Spec{Exit: 7}}
	again := &steadyJob{id: "job_2", ranks: 1, replaceable: true}
	gang := &steadyJob{id: "job_3", ranks: 2}
	ended := func(attempt, rank int) workload.Life { return workload.Life{Attempt: attempt, Rank: rank, Ended: true} }
	cut := workload.Life{Attempt: 1}
	failed := procs.Job{State: "FAILED", Attempt: 1, ExitCode: code(7)}
	for name, tc := range map[string]struct {
		job     *steadyJob
		seen    procs.Job
		lives   []workload.Life
		replace bool
		bad     int
	}{
		"as it should":                 {once, failed, []workload.Life{ended(1, 0)}, false, 0},
		"another exit code":            {once, procs.Job{State: "FAILED", Attempt: 1, ExitCode: code(1)}, []workload.Life{ended(1, 0)}, false, 1},
		"no exit code":                 {once, procs.Job{State: "FAILED", Attempt: 1}, []workload.Life{ended(1, 0)}, false, 1},
		"success that was none":        {once, procs.Job{State: "SUCCEEDED", Attempt: 1, ExitCode: code(0)}, []workload.Life{ended(1, 0)}, false, 1},
		"lost without a retry":         {once, procs.Job{State: "FAILED", Attempt: 1, ErrorType: "NODE_LOST"}, []workload.Life{cut}, false, 2},
		"never started":                {once, failed, nil, false, 1},
		"started twice":                {once, failed, []workload.Life{cut, ended(1, 0)}, false, 1},
		"replaced without a retry":     {once, procs.Job{State: "FAILED", Attempt: 2, ExitCode: code(7)}, []workload.Life{cut, ended(2, 0)}, true, 1},
		"replaced where it may be":     {again, procs.Job{State: "SUCCEEDED", Attempt: 2, ExitCode: code(0)}, []workload.Life{cut, ended(2, 0)}, true, 0},
		"replaced for nothing":         {again, procs.Job{State: "SUCCEEDED", Attempt: 2, ExitCode: code(0)}, []workload.Life{cut, ended(2, 0)}, false, 1},
		"an attempt that nobody knows": {again, procs.Job{State: "SUCCEEDED", Attempt: 1, ExitCode: code(0)}, []workload.Life{ended(1, 0), ended(2, 0)}, true, 1},
		"a gang":                       {gang, procs.Job{State: "SUCCEEDED", Attempt: 1, ExitCode: code(0)}, []workload.Life{ended(1, 0), ended(1, 1)}, false, 0},
		"half a gang":                  {gang, procs.Job{State: "SUCCEEDED", Attempt: 1, ExitCode: code(0)}, []workload.Life{ended(1, 0)}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bad := harm(tc.job, tc.seen, tc.lives, tc.replace)
			require.Len(t, bad, tc.bad, bad)
		})
	}
}

func TestDescent_isOneLine(t *testing.T) {
	j := &steadyJob{id: "job_1"}
	first := procs.Checkpoint{ID: "ckpt_1000", Attempt: 1, Step: 10, Path: "/c/a1-10"}
	second := procs.Checkpoint{ID: "ckpt_2000", Attempt: 1, Step: 20, Path: "/c/a1-20"}
	third := procs.Checkpoint{ID: "ckpt_10000", Attempt: 2, Step: 30, Path: "/c/a2-30"}
	stale := procs.Checkpoint{ID: "ckpt_20000", Attempt: 1, Step: 30, Path: "/c/a1-30"}
	begun := workload.Life{Attempt: 1}
	for name, tc := range map[string]struct {
		lives      []workload.Life
		registered []procs.Checkpoint
		bad        int
	}{
		"none":                           {[]workload.Life{begun}, nil, 0},
		"in any order of the list":       {[]workload.Life{begun, {Attempt: 2, From: second.Path}}, []procs.Checkpoint{third, second, first}, 0},
		"one of a replaced attempt":      {[]workload.Life{begun, {Attempt: 2, From: second.Path}}, []procs.Checkpoint{first, second, third, stale}, 2},
		"resumed from an older one":      {[]workload.Life{begun, {Attempt: 2, From: first.Path}}, []procs.Checkpoint{first, second, third}, 1},
		"begun anew for no reason":       {[]workload.Life{begun, {Attempt: 2}}, []procs.Checkpoint{first}, 1},
		"resumed from what is not known": {[]workload.Life{begun, {Attempt: 2, From: "/c/other"}}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bad := descent(j, tc.lives, slices.Clone(tc.registered))
			require.Len(t, bad, tc.bad, bad)
		})
	}
}
