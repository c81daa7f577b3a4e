package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// The tasks of an attempt get the same checkpoints, with the nodes that serve them. For each step a task also gets the
// checkpoint of its own rank, and none of the current attempt.
func TestTaskSpec_checkpointsToResumeFrom(t *testing.T) {
	request := sleeper()
	request.ResourceConfig = &v1.ResourceConfig{GpuCount: 2, NodeCount: 2}
	request.SchedulingConfig = &v1.SchedulingConfig{MaxRetries: proto.Int32(3)}
	spec, err := admission.Parse(request, capacity.New())
	require.NoError(t, err)
	spec.Tenant = "t1"
	node := func(id, addr string) nodeverbs.RegisterNode {
		return nodeverbs.RegisterNode{Node: work.Node{ID: id, BootID: "b", GRPCAddr: addr, CPUs: 8, MemMB: 1000, GPUs: []work.GPU{
			{UUID: "g-" + id, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
		}}}
	}
	m, apply := stateOf(t, node("n0", "10.0.0.1:7"), node("n1", "10.0.0.2:7"), jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{spec}})
	id := ident.Job(3 << 16)
	place := func(attempt uint32) (token uint64) {
		r := apply(jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: attempt, Tasks: []work.TaskPlacement{{Node: "n0", GPUs: 1}, {Node: "n1", GPUs: 1}}}}}).(jobverbs.PlaceResult)
		require.Empty(t, r.Refused)
		j, _ := m.View().Job(id)
		return j.Token
	}
	saves := func(attempt uint32, token uint64, rank uint16, step int64, name string) {
		apply(jobverbs.ReportTasks{Node: fmt.Sprintf("n%d", rank), Reports: []jobverbs.TaskReport{{
			Job: id, Attempt: attempt, Rank: rank, Token: token, Kind: jobverbs.ReportCheckpoint, Step: step, Path: "/c/" + name, Digest: "d", SizeBytes: 1,
		}}})
	}
	token := place(1)
	saves(1, token, 1, 10, "own-part")
	saves(1, token, 1, 5, "older-part")
	for i := range 5 {
		saves(1, token, 0, 10, fmt.Sprint("part-", i))
	}
	for rank := range uint16(2) {
		apply(jobverbs.ReportTasks{Node: fmt.Sprintf("n%d", rank), Reports: []jobverbs.TaskReport{{
			Job: id, Attempt: 1, Rank: rank, Token: token, Kind: jobverbs.ReportEnded, ExitCode: proto.Int32(1), ErrorType: v1.ErrorType_EXIT_NONZERO,
		}}})
	}
	token = place(2)
	saves(2, token, 0, 20, "of-this-attempt")
	points := func(node string) (paths []string) {
		orders := session.NewOrderBook(node, admin.LauncherFor, nil).Update(m.View())
		require.Len(t, orders.GetTasks(), 1)
		spec := orders.GetTasks()[0].GetSpec()
		require.Equal(t, []string{"10.0.0.1:7", "10.0.0.2:7"}, []string{spec.GetPeers()[0].GetGrpcAddr(), spec.GetPeers()[1].GetGrpcAddr()})
		for _, p := range spec.GetResumePoints() {
			paths = append(paths, p.GetPath())
			require.EqualValues(t, 1, p.GetAttempt())
			require.Equal(t, map[string]string{"n0": "10.0.0.1:7", "n1": "10.0.0.2:7"}[p.GetNodeId()], p.GetNodeAddr())
			require.Equal(t, p.GetNodeId(), fmt.Sprintf("n%d", p.GetRank()))
		}
		return paths
	}
	shared := []string{"/c/part-4", "/c/part-3", "/c/part-2", "/c/part-1"} // of the newest five, without that of this attempt
	require.Equal(t, append(shared[:4:4], "/c/part-0"), points("n0"))
	require.Equal(t, append(shared[:4:4], "/c/own-part"), points("n1"))
}
