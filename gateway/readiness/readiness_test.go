package readiness

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestWhyNoLeader(t *testing.T) {
	voter := func(id, liveness string) *v1.CoordinatorStatus {
		return &v1.CoordinatorStatus{Id: id, Voter: true, Liveness: liveness}
	}
	for want, view := range map[string]*v1.GetClusterResponse{
		"no quorum: 2 of 5 voters are alive, 3 are needed": {Coordinators: []*v1.CoordinatorStatus{
			voter("a", "alive"), voter("b", "alive"), voter("c", "dead"), voter("d", "left"), voter("e", "suspect"), {Id: "f", Liveness: "alive"},
		}},
		"no leader: 3 of 3 voters are alive, an election should follow": {Coordinators: []*v1.CoordinatorStatus{voter("a", "alive"), voter("b", "alive"), voter("c", "alive")}},
		"leader a cannot confirm its leadership":                        {Leader: "a", Coordinators: []*v1.CoordinatorStatus{voter("a", "alive"), voter("b", "alive")}},
		"no leader":                                                     {Coordinators: []*v1.CoordinatorStatus{voter("a", "unknown"), voter("b", "unknown")}}, // without gossip their state is unknown
	} {
		require.Equal(t, want, whyNoLeader(view))
	}
}
