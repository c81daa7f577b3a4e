package status

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// expected returns the status of the design. The phase matters only in RUNNING, and considered only in QUEUED.
func expected(state, phase string, considered bool) string {
	switch state {
	case "QUEUED":
		if considered {
			return "QUEUED"
		}
		return "PENDING"
	case "RUNNING":
		if phase == "UNSPECIFIED" {
			return "TRAINING"
		}
		return phase
	}
	return map[string]string{
		"UNSPECIFIED": "UNSPECIFIED", "ALLOCATED": "SCHEDULING", "STARTING": "PREPARING", "PAUSED": "PAUSED",
		"SUCCEEDED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "CANCELLED", "PREEMPTED": "PREEMPTED", "LOST": "FAILED",
	}[state]
}

func TestOf_everyStatePhaseAndSight(t *testing.T) {
	shown := map[string]bool{}
	for s, state := range v1.JobState_Value_name {
		for p, phase := range v1.JobPhase_Value_name {
			for _, considered := range []bool{false, true} {
				got := Of(v1.JobState_Value(s), v1.JobPhase_Value(p), considered).String()
				want := expected(state, phase, considered)
				require.NotEmptyf(t, want, "the test knows no state %s", state)
				require.Equalf(t, want, got, "%s %s considered=%v", state, phase, considered)
				shown[got] = true
			}
		}
	}
	for _, name := range v1.JobStatus_Value_name {
		require.Truef(t, shown[name], "no job ever shows %s", name)
	}
	require.Equal(t, v1.JobStatus_UNSPECIFIED, Of(99, 0, true))
}

func TestFilter_agreesWithOf(t *testing.T) {
	for st, status := range v1.JobStatus_Value_name {
		if st == 0 {
			continue
		}
		f := NewFilter(v1.JobStatus_Value(st))
		require.False(t, f.All())
		var states []string
		for s := range v1.JobState_Value_name {
			possible := false
			for p := range v1.JobPhase_Value_name {
				for _, considered := range []bool{false, true} {
					state, phase := v1.JobState_Value(s), v1.JobPhase_Value(p)
					shows := Of(state, phase, considered) == v1.JobStatus_Value(st)
					require.Equalf(t, shows, f.Match(state, phase, considered), "%s: %s %s %v", status, state, phase, considered)
					possible = possible || shows
				}
			}
			require.Equalf(t, possible, f.State(v1.JobState_Value(s)), "%s: state %d", status, s)
			if possible {
				states = append(states, v1.JobState_Value(s).String())
			}
		}
		var inverse []string
		for _, s := range States(v1.JobStatus_Value(st)) {
			inverse = append(inverse, s.String())
		}
		require.ElementsMatch(t, states, inverse, status)
	}
}

func TestFilter_severalAndNone(t *testing.T) {
	all := NewFilter()
	two := NewFilter(v1.JobStatus_PENDING, v1.JobStatus_EVALUATING)
	nothing := NewFilter(v1.JobStatus_Value(99))
	require.True(t, all.All())
	require.True(t, all.Match(v1.JobState_LOST, 0, false))
	require.True(t, two.Match(v1.JobState_QUEUED, 0, false))
	require.False(t, two.Match(v1.JobState_QUEUED, 0, true))
	require.True(t, two.Match(v1.JobState_RUNNING, v1.JobPhase_EVALUATING, true))
	require.False(t, two.Match(v1.JobState_RUNNING, v1.JobPhase_TRAINING, true))
	for s := range v1.JobState_Value_name {
		require.False(t, nothing.Match(v1.JobState_Value(s), 0, true), "a status that does not exist")
	}
}

func TestTerminal_everyState(t *testing.T) {
	terminal := map[string]bool{"SUCCEEDED": true, "FAILED": true, "CANCELED": true, "PREEMPTED": true, "LOST": true}
	for s, name := range v1.JobState_Value_name {
		require.Equal(t, terminal[name], Terminal(v1.JobState_Value(s)), name)
	}
}

func TestOfCode_everyCode(t *testing.T) {
	want := map[codes.Code]string{
		codes.OK: "200 OK pass", codes.InvalidArgument: "400 INVALID_ARGUMENT pass", codes.Unauthenticated: "401 UNAUTHENTICATED pass",
		codes.PermissionDenied: "403 PERMISSION_DENIED pass", codes.NotFound: "404 NOT_FOUND pass", codes.AlreadyExists: "409 ALREADY_EXISTS pass",
		codes.FailedPrecondition: "409 FAILED_PRECONDITION pass", codes.ResourceExhausted: "429 RESOURCE_EXHAUSTED pass",
		codes.Unavailable: "503 UNAVAILABLE friendly", codes.DeadlineExceeded: "504 DEADLINE_EXCEEDED friendly",
	}
	policy := map[Policy]string{Pass: "pass", Sanitise: "sanitise", Friendly: "friendly"}
	for c := codes.Code(0); c < 20; c++ { // up to three that do not exist
		expect, ok := want[c]
		if !ok {
			expect = "500 INTERNAL sanitise"
		}
		e := OfCode(c)
		require.Equal(t, expect, fmt.Sprint(e.HTTP, " ", e.Code, " ", policy[e.Policy]), c)
		require.Equal(t, e.Policy == Pass, e.Message == "", c)
		require.NotEmpty(t, http.StatusText(e.HTTP))
	}
}
