package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestPlace_isVerifiedPieceByPiece(t *testing.T) {
	one := func(node string, gpus uint64) []TaskPlacement { return []TaskPlacement{{node, gpus}} }
	tests := map[string]struct {
		shape Shape
		tasks []TaskPlacement
		spoil func(w *world, p *Placement)
		code  Code // 0: granted
	}{
		"fits":                        {Shape{GPUs: 2}, one("n1", 0b11), nil, 0},
		"an attempt that is not next": {Shape{GPUs: 1}, one("n1", 1), func(_ *world, p *Placement) { p.Attempt = 2 }, CodeAborted},
		"an unknown job":              {Shape{GPUs: 1}, one("n1", 1), func(_ *world, p *Placement) { p.Job = 9 }, CodeNotFound},
		"a job that was canceled": {Shape{GPUs: 1}, one("n1", 1), func(w *world, p *Placement) {
			do[ControlResult](w, ControlJob{Job: p.Job, Action: ActionCancel})
		}, CodeFailedPrecondition},
		"an unknown node":         {Shape{GPUs: 1}, one("n9", 1), nil, CodeNotFound},
		"too few GPUs":            {Shape{GPUs: 2}, one("n1", 1), nil, CodeInvalidArgument},
		"too many GPUs":           {Shape{GPUs: 1}, one("n1", 3), nil, CodeInvalidArgument},
		"a GPU that is not there": {Shape{GPUs: 1}, one("n1", 1<<20), nil, CodeFailedPrecondition},
		"a GPU that is ill":       {Shape{GPUs: 1}, one("ill", 1), nil, CodeFailedPrecondition},
		"a GPU that is taken":     {Shape{GPUs: 1}, one("busy", 1), nil, CodeFailedPrecondition},
		"a GPU that is shared":    {Shape{GPUs: 1}, one("busy", 2), nil, CodeFailedPrecondition},
		"a share that fits":       {Shape{FractionMilli: 400}, one("busy", 2), nil, 0},
		"a share too many":        {Shape{FractionMilli: 401}, one("busy", 2), nil, CodeFailedPrecondition},
		"a share of a taken GPU":  {Shape{FractionMilli: 100}, one("busy", 1), nil, CodeFailedPrecondition},
		"a share of two GPUs":     {Shape{FractionMilli: 100}, one("n1", 3), nil, CodeInvalidArgument},
		"another type of GPU":     {Shape{GPUs: 1, GPUType: "A100"}, one("n1", 1), nil, CodeFailedPrecondition},
		"the model by name":       {Shape{GPUs: 1, GPUType: "nvidia h100 80gb hbm3"}, one("n1", 1), nil, 0},
		"memory too small":        {Shape{GPUs: 1, GPUMemMB: 90_000}, one("n1", 1), nil, CodeFailedPrecondition},
		"no CPUs left":            {Shape{CPUs: 65}, one("n1", 0), nil, CodeFailedPrecondition},
		"no memory left":          {Shape{MemMB: 600 << 10}, one("n1", 0), nil, CodeFailedPrecondition},
		"a label that is lacking": {Shape{Selector: "zone=b"}, one("n1", 0), nil, CodeFailedPrecondition},
		"the labels asked for":    {Shape{Selector: "name=n1,zone=a"}, one("n1", 0), nil, 0},
		"GPUs without a link":     {Shape{GPUs: 2, Topology: TopologyNVLink}, one("unlinked", 3), nil, CodeFailedPrecondition},
		"GPUs with a link":        {Shape{GPUs: 2, Topology: TopologyNVLink}, one("n1", 3), nil, 0},
		"an unreachable node":     {Shape{GPUs: 1}, one("away", 1), nil, CodeFailedPrecondition},
		"a draining node":         {Shape{GPUs: 1}, one("drained", 1), nil, CodeFailedPrecondition},
		"a gang, whole":           {Shape{Nodes: 2, GPUs: 1}, []TaskPlacement{{"n1", 1}, {"n2", 4}}, nil, 0},
		"half a gang":             {Shape{Nodes: 2, GPUs: 1}, one("n1", 1), nil, CodeInvalidArgument},
		"a gang on one node":      {Shape{Nodes: 2, GPUs: 1}, []TaskPlacement{{"n1", 1}, {"n1", 2}}, nil, CodeInvalidArgument},
		"a gang that half fits":   {Shape{Nodes: 2, GPUs: 1}, []TaskPlacement{{"n1", 1}, {"busy", 1}}, nil, CodeFailedPrecondition},
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
			w.do(RegisterNode{Node: ill}, RegisterNode{Node: unlinked}, RegisterNode{Node: a100})
			w.do(SetNode{ID: "away", Action: NodeUnreachable}, SetNode{ID: "drained", Action: NodeDrain})
			w.place(w.submit(oneGPU()), "busy")
			share := oneGPU()
			share.Shape = Shape{FractionMilli: 600}
			w.place(w.submit(share), "busy")

			n := oneGPU()
			n.Shape = c.shape
			id := w.submit(n)
			p := Placement{Job: id, Attempt: 1, Tasks: c.tasks}
			if c.spoil != nil {
				c.spoil(w, &p)
			}
			leases := w.m.View().LeaseCount()
			r := do[PlaceResult](w, PlaceJobs{Placements: []Placement{p}})
			if c.code == 0 {
				require.Empty(t, r.Refused)
				require.Equal(t, []PlacedJob{{Job: id, Attempt: 1, Token: w.index}}, r.Placed)
				require.Equal(t, allocated, w.job(id).State)
				require.Equal(t, leases+len(c.tasks), w.m.View().LeaseCount())
				return
			}
			require.Empty(t, r.Placed)
			require.Equal(t, c.code, r.Refused[0].Code, r.Refused[0].Message)
			require.NotEqual(t, allocated, w.job(id).State)
			require.Equal(t, leases, w.m.View().LeaseCount(), "a gang gets all or nothing")
		})
	}
}

func TestPlace_refusesOnlyWhatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	var p PlaceJobs
	for range 3 {
		id := w.submit(oneGPU())
		p.Placements = append(p.Placements, Placement{Job: id, Attempt: 1, Tasks: []TaskPlacement{{"n1", 1}}})
	}
	p.Placements[2].Tasks[0].GPUs = 2
	r := do[PlaceResult](w, p)
	require.Len(t, r.Placed, 2)
	require.Equal(t, p.Placements[1].Job, r.Refused[0].Job)
}

func TestPlace_reasonsLiveAsLongAsTheirClass(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	id := w.submit(oneGPU())
	class := w.job(id).class()
	other := class
	other.Queue = "elsewhere"
	w.do(PlaceJobs{BasedOn: w.index, Reasons: []ClassReason{{class, "no GPU is free"}, {other, "nobody waits"}}})
	require.Equal(t, "no GPU is free", w.m.View().ClassReason(class))
	require.Empty(t, w.m.View().ClassReason(other))
	require.False(t, w.m.View().Pending(w.job(id)), "it was considered")
	w.do(PlaceJobs{Reasons: []ClassReason{{class, ""}}})
	require.Empty(t, w.m.View().ClassReason(class))
	w.do(PlaceJobs{Reasons: []ClassReason{{class, "again"}}})
	w.place(id, "n1")
	require.Empty(t, w.m.View().ClassReason(class))
}
