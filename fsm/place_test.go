package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

func TestPlace_isVerifiedPieceByPiece(t *testing.T) {
	one := func(node string, gpus uint64) []work.TaskPlacement {
		return []work.TaskPlacement{{Node: node, GPUs: gpus}}
	}
	two := []work.TaskPlacement{{Node: "n1", GPUs: 1}, {Node: "n2", GPUs: 1}}
	inOne := func(label string, nodes, segment uint16) work.Shape {
		return work.Shape{Nodes: nodes, GPUs: 1, Between: domains.Same, Level: label, Segment: segment}
	}
	tests := map[string]struct {
		shape work.Shape
		tasks []work.TaskPlacement
		spoil func(w *world, p *work.Placement)
		code  kernel.Code // 0: granted
	}{
		"fits":                        {work.Shape{GPUs: 2}, one("n1", 0b11), nil, 0},
		"an attempt that is not next": {work.Shape{GPUs: 1}, one("n1", 1), func(_ *world, p *work.Placement) { p.Attempt = 2 }, kernel.CodeAborted},
		"an unknown job":              {work.Shape{GPUs: 1}, one("n1", 1), func(_ *world, p *work.Placement) { p.Job = 9 }, kernel.CodeNotFound},
		"a job that was canceled": {work.Shape{GPUs: 1}, one("n1", 1), func(w *world, p *work.Placement) {
			do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: p.Job, Action: work.ActionCancel})
		}, kernel.CodeFailedPrecondition},
		"an unknown node":         {work.Shape{GPUs: 1}, one("n9", 1), nil, kernel.CodeNotFound},
		"too few GPUs":            {work.Shape{GPUs: 2}, one("n1", 1), nil, kernel.CodeInvalidArgument},
		"too many GPUs":           {work.Shape{GPUs: 1}, one("n1", 3), nil, kernel.CodeInvalidArgument},
		"a GPU that is not there": {work.Shape{GPUs: 1}, one("n1", 1<<20), nil, kernel.CodeFailedPrecondition},
		"a GPU that is unhealthy": {work.Shape{GPUs: 1}, one("ill", 1), nil, kernel.CodeFailedPrecondition},
		"a GPU that is taken":     {work.Shape{GPUs: 1}, one("busy", 1), nil, kernel.CodeFailedPrecondition},
		"a GPU that is shared":    {work.Shape{GPUs: 1}, one("busy", 2), nil, kernel.CodeFailedPrecondition},
		"a share that fits":       {work.Shape{FractionMilli: 400}, one("busy", 2), nil, 0},
		"a share too many":        {work.Shape{FractionMilli: 401}, one("busy", 2), nil, kernel.CodeFailedPrecondition},
		"a share of a taken GPU":  {work.Shape{FractionMilli: 100}, one("busy", 1), nil, kernel.CodeFailedPrecondition},
		"a share of two GPUs":     {work.Shape{FractionMilli: 100}, one("n1", 3), nil, kernel.CodeInvalidArgument},
		"another type of GPU":     {work.Shape{GPUs: 1, GPUType: "A100"}, one("n1", 1), nil, kernel.CodeFailedPrecondition},
		"the model by name":       {work.Shape{GPUs: 1, GPUType: "nvidia h100 80gb hbm3"}, one("n1", 1), nil, 0},
		"memory too small":        {work.Shape{GPUs: 1, GPUMemMB: 90_000}, one("n1", 1), nil, kernel.CodeFailedPrecondition},
		"no CPUs left":            {work.Shape{CPUs: 65}, one("n1", 0), nil, kernel.CodeFailedPrecondition},
		"no memory left":          {work.Shape{MemMB: 600 << 10}, one("n1", 0), nil, kernel.CodeFailedPrecondition},
		"a label that is lacking": {work.Shape{Selector: "zone=b"}, one("n1", 0), nil, kernel.CodeFailedPrecondition},
		"the labels asked for":    {work.Shape{Selector: "name=n1,zone=a"}, one("n1", 0), nil, 0},
		"a node that is excluded": {work.Shape{GPUs: 1, Exclude: "n1"}, one("n1", 1), nil, kernel.CodeFailedPrecondition},
		"a node by its pattern":   {work.Shape{GPUs: 1, Exclude: "n[12]"}, one("n1", 1), nil, kernel.CodeFailedPrecondition},
		"a node beside":           {work.Shape{GPUs: 1, Exclude: "n2"}, one("n1", 1), nil, 0},
		"a gang in one domain":    {inOne("zone", 2, 0), two, nil, 0},
		"a gang in two domains":   {inOne("name", 2, 0), two, nil, kernel.CodeFailedPrecondition},
		"a gang in no domain":     {inOne("rack", 2, 0), two, nil, kernel.CodeFailedPrecondition},
		"segments in two domains": {inOne("name", 2, 1), two, nil, 0},
		"a gang that prefers one": {work.Shape{Nodes: 2, GPUs: 1, Between: domains.Prefer, Level: "name"}, two, nil, 0},
		"GPUs without a link":     {work.Shape{GPUs: 2, Topology: work.TopologyNVLink}, one("unlinked", 3), nil, kernel.CodeFailedPrecondition},
		"GPUs with a link":        {work.Shape{GPUs: 2, Topology: work.TopologyNVLink}, one("n1", 3), nil, 0},
		"an unreachable node":     {work.Shape{GPUs: 1}, one("away", 1), nil, kernel.CodeFailedPrecondition},
		"a draining node":         {work.Shape{GPUs: 1}, one("drained", 1), nil, kernel.CodeFailedPrecondition},
		"a gang, whole":           {work.Shape{Nodes: 2, GPUs: 1}, []work.TaskPlacement{{Node: "n1", GPUs: 1}, {Node: "n2", GPUs: 4}}, nil, 0},
		"half a gang":             {work.Shape{Nodes: 2, GPUs: 1}, one("n1", 1), nil, kernel.CodeInvalidArgument},
		"a gang on one node":      {work.Shape{Nodes: 2, GPUs: 1}, []work.TaskPlacement{{Node: "n1", GPUs: 1}, {Node: "n1", GPUs: 2}}, nil, kernel.CodeInvalidArgument},
		"a gang that half fits":   {work.Shape{Nodes: 2, GPUs: 1}, []work.TaskPlacement{{Node: "n1", GPUs: 1}, {Node: "busy", GPUs: 1}}, nil, kernel.CodeFailedPrecondition},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, id := range []string{"n1", "n2", "busy", "away", "drained"} {
				w.node(id, 8)
			}
			ill := testNode("ill", "b", 2)
			ill.GPUs[0].Health = v1.GpuHealth_QUARANTINED
			unlinked := testNode("unlinked", "b", 2)
			unlinked.GPUs[0].NVLink = 0
			a100 := testNode("a100", "b", 1)
			a100.GPUs[0].Type, a100.GPUs[0].Model = "A100", "NVIDIA A100"
			w.do(nodeverbs.RegisterNode{Node: ill}, nodeverbs.RegisterNode{Node: unlinked}, nodeverbs.RegisterNode{Node: a100})
			w.do(nodeverbs.SetNode{ID: "away", Action: nodeverbs.NodeUnreachable}, nodeverbs.SetNode{ID: "drained", Action: nodeverbs.NodeDrain})
			w.place(w.submit(oneGPU()), "busy")
			share := oneGPU()
			share.Shape = work.Shape{FractionMilli: 600}
			w.place(w.submit(share), "busy")

			n := oneGPU()
			n.Shape = c.shape
			id := w.submit(n)
			p := work.Placement{Job: id, Attempt: 1, Tasks: c.tasks}
			if c.spoil != nil {
				c.spoil(w, &p)
			}
			leases := w.m.View().LeaseCount()
			r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{p}})
			if c.code == 0 {
				require.Empty(t, r.Refused)
				require.Equal(t, []jobverbs.PlacedJob{{Job: id, Attempt: 1, Token: w.index}}, r.Placed)
				require.Equal(t, allocated, w.job(id).State)
				require.Equal(t, leases+len(c.tasks), w.m.View().LeaseCount())
				return
			}
			require.Empty(t, r.Placed)
			require.Equal(t, c.code, r.Refused[0].Code, words.Of(r.Refused[0].Reason))
			require.NotEqual(t, allocated, w.job(id).State)
			require.Equal(t, leases, w.m.View().LeaseCount(), "a gang gets all or nothing")
		})
	}
}

func TestPlace_refusesOnlyWhatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	var p jobverbs.PlaceJobs
	for range 3 {
		id := w.submit(oneGPU())
		p.Placements = append(p.Placements, work.Placement{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 1}}})
	}
	p.Placements[2].Tasks[0].GPUs = 2
	r := do[jobverbs.PlaceResult](w, p)
	require.Len(t, r.Placed, 2)
	require.Equal(t, p.Placements[1].Job, r.Refused[0].Job)
}

func TestPlace_reasonsLiveAsLongAsTheirClass(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	id := w.submit(oneGPU())
	class := w.job(id).Class()
	other := class
	other.Queue = "elsewhere"
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: class, Reason: "no GPU is free"}, {Class: other, Reason: "nobody waits"}}})
	require.EqualValues(t, "no GPU is free", w.m.View().ClassReason(class))
	require.Empty(t, w.m.View().ClassReason(other))
	require.False(t, w.m.View().Pending(w.job(id)), "it was considered")
	w.do(jobverbs.PlaceJobs{Reasons: []jobverbs.ClassReason{{Class: class, Reason: ""}}})
	require.Empty(t, w.m.View().ClassReason(class))
	w.do(jobverbs.PlaceJobs{Reasons: []jobverbs.ClassReason{{Class: class, Reason: "again"}}})
	w.place(id, "n1")
	require.Empty(t, w.m.View().ClassReason(class))
}
