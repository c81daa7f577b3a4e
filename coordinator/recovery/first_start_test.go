package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestFirstStart_decides(t *testing.T) {
	const (
		empty   = v1.ReplicaState_EMPTY
		fresh   = v1.ReplicaState_FRESH
		used    = v1.ReplicaState_USED
		pending = v1.ReplicaState_RESTORING
	)
	says := func(state v1.ReplicaState_Value) *v1.DescribeReplicaResponse {
		return &v1.DescribeReplicaResponse{State: state}
	}
	led := func(member, known bool) *v1.DescribeReplicaResponse {
		return &v1.DescribeReplicaResponse{State: used, Leader: "c2", Current: true, Member: member, Known: known}
	}
	behind := led(true, false)
	behind.Current = false
	tests := map[string]struct {
		// before is an earlier answer in the life of the process; nil: the other does not answer.
		before, c2, c3 *v1.DescribeReplicaResponse
		want           beginning
		via, why       string
	}{
		"all are empty":                               {nil, says(empty), says(empty), beginAnew, "", ""},
		"one has begun and nothing has happened":      {nil, says(fresh), says(empty), beginAnew, "", ""},
		"one does not answer":                         {nil, says(empty), nil, beginWaits, "", "c3 does not answer (c3 is away)"},
		"none answers":                                {nil, nil, nil, beginWaits, "", "c2 does not answer (c2 is away); c3 does not answer"},
		"there is a cluster that never heard of it":   {nil, led(false, false), nil, beginsJoins, "c2", ""},
		"and that knew it once":                       {nil, led(false, true), nil, beginsJoins, "c2", ""},
		"a cluster expects it":                        {nil, led(true, false), nil, beginAnew, "", ""},
		"it has lost its disk":                        {nil, led(true, true), says(empty), beginWaits, "", "mind raft remove c1"},
		"a cluster has no leader":                     {nil, says(used), says(empty), beginWaits, "", "c2 has the data of a cluster, but does not know its leader"},
		"a member of it is behind":                    {nil, behind, says(empty), beginWaits, "", "does not know its leader"},
		"another one begins from a saved state":       {nil, says(pending), says(empty), beginWaits, "", "c2 has the data"},
		"it was empty, and has begun meanwhile":       {says(empty), says(used), says(empty), beginAnew, "", ""},
		"it was empty, and leads meanwhile":           {says(empty), led(true, true), says(empty), beginAnew, "", ""},
		"it was empty, and is gone":                   {says(empty), nil, says(empty), beginAnew, "", ""},
		"two disks are lost, and the third is silent": {nil, says(empty), nil, beginWaits, "", "c3 does not answer"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			f := &firstStart{
				self: "c1", others: []string{"c2", "c3"},
				answers: map[string]*v1.DescribeReplicaResponse{}, silent: map[string]string{}, empty: map[string]bool{},
			}
			hear := func(id string, answer *v1.DescribeReplicaResponse) {
				if answer == nil {
					f.heard(id, nil, grpcstatus.Error(codes.Unavailable, id+" is away"))
					return
				}
				f.heard(id, answer, nil)
			}
			if c.before != nil {
				hear("c2", c.before)
			}
			hear("c2", c.c2)
			hear("c3", c.c3)
			do, via, why := f.decide()
			require.Equal(t, c.want, do)
			require.Equal(t, c.via, via)
			require.Contains(t, why, c.why)
			require.Equal(t, c.want == beginWaits, why != "")
		})
	}
	alone := &firstStart{self: "c1"}
	do, _, _ := alone.decide()
	require.Equal(t, beginAnew, do, "a cluster of one asks nobody")
}
