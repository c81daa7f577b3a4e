package users

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/workload"
)

func code(n int) *int { return &n }

func TestHarm_saysWhatShouldNotHaveHappened(t *testing.T) {
	once := &Job{ID: "job_1", ranks: 1, spec: workload.Spec{Exit: 7}}
	again := &Job{ID: "job_2", ranks: 1, Replaceable: true}
	gang := &Job{ID: "job_3", ranks: 2}
	ended := func(attempt, rank int) workload.Life { return workload.Life{Attempt: attempt, Rank: rank, Ended: true} }
	cut := workload.Life{Attempt: 1}
	failed := procs.Job{State: "FAILED", Attempt: 1, ExitCode: code(7)}
	for name, tc := range map[string]struct {
		job     *Job
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
	j := &Job{ID: "job_1"}
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
		"begun again for no reason":      {[]workload.Life{begun, {Attempt: 2}}, []procs.Checkpoint{first}, 1},
		"resumed from what is not known": {[]workload.Life{begun, {Attempt: 2, From: "/c/other"}}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bad := descent(j, tc.lives, slices.Clone(tc.registered))
			require.Len(t, bad, tc.bad, bad)
		})
	}
}
