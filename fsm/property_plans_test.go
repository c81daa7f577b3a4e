package fsm_test

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// plan places waiting jobs, mostly well, sometimes twice, on wrong nodes, or on GPUs that are taken.
func (g *generator) plan() kernel.Command {
	v := g.w.m.View()
	p := jobverbs.PlaceJobs{BasedOn: uint64(g.n("based on", 0, int(v.Index())+2))}
	for key := range v.Classes() {
		if g.n("reason", 0, 3) == 0 {
			p.Reasons = append(p.Reasons, jobverbs.ClassReason{Class: key, Reason: pick(g, "why", "", "no GPU is free", reason.New(reason.NoNodeReady), reason.New(reason.QuotaOfRunning, 1, 2))})
		}
		for j := range v.ClassJobs(key) {
			if g.n("skip", 0, 3) == 0 {
				continue
			}
			if j.Array != nil {
				first, _ := j.Array.Waiting.Next(uint32(g.n("from", 0, 5)))
				j = j.Element(first)
			}
			nodes := rapid.Permutation([]string{"n1", "n2", "n3"}).Draw(g.T, "nodes")
			place := work.Placement{Job: j.ID, Attempt: j.Attempt + 1}
			for i := range int(j.Shape.Nodes) {
				t := work.TaskPlacement{Node: nodes[i%len(nodes)]}
				if n, ok := v.Node(t.Node); ok {
					use := v.Use(t.Node)
					free := work.Eligible(n, &use, j.Shape)
					want := int(j.Shape.GPUs)
					if j.Shape.FractionMilli > 0 {
						want = 1
					}
					for ; want > 0 && free != 0; want-- {
						t.GPUs |= free & -free
						free &= free - 1
					}
				}
				place.Tasks = append(place.Tasks, t)
			}
			switch g.n("spoil", 0, 9) {
			case 0:
				place.Attempt++
			case 1:
				place.Tasks = append(place.Tasks, work.TaskPlacement{Node: "n1", GPUs: 1})
			case 2:
				place.Tasks[0].GPUs = rapid.Uint64().Draw(g.T, "mask")
			case 3:
				p.Placements = append(p.Placements, place)
			}
			p.Placements = append(p.Placements, place)
		}
	}
	return p
}

// preempt asks jobs to make room, mostly well, sometimes for one that is not below, or more of them than needed.
func (g *generator) preempt() kernel.Command {
	v := g.w.m.View()
	var c jobverbs.PreemptJobs
	for key := range v.Classes() {
		for j := range v.ClassJobs(key) {
			for at := range v.ActiveJobs() {
				if (at.Priority >= j.Priority && at.Queue == j.Queue || !at.Preemptible || at.Stop != 0) && g.n("though", 0, 9) > 0 {
					continue
				}
				c.Preemptions = append(c.Preemptions, g.preemption(v, j, at))
			}
			break
		}
	}
	return c
}

// preemption takes the nodes of one job for another, and then any.
func (g *generator) preemption(v *fsm.View, j, at *work.Job) jobverbs.Preemption {
	p := jobverbs.Preemption{Job: j.ID, Attempt: j.Attempt + 1, Victims: []jobverbs.Victim{{Job: at.ID, Attempt: at.Attempt}}}
	nodes := work.TaskNodes(at.Tasks)
	for n := range v.Nodes() {
		if !slices.Contains(nodes, n.ID) {
			nodes = append(nodes, n.ID)
		}
	}
	for _, id := range nodes[:min(len(nodes), int(j.Shape.Nodes))] {
		n, _ := v.Node(id)
		use := v.Use(id)
		for l := range v.LeasesOn(id) {
			if l.Job == at.ID {
				use.Remove(l)
			}
		}
		free, t := work.Eligible(n, &use, j.Shape), work.TaskPlacement{Node: id}
		for want := int(j.Shape.GPUs) + int(min(1, j.Shape.FractionMilli)); want > 0 && free != 0; want-- {
			t.GPUs |= free & -free
			free &= free - 1
		}
		p.Tasks = append(p.Tasks, t)
	}
	if g.n("spoil", 0, 9) == 0 {
		p.Attempt++
	}
	p.Reclaim = g.n("reclaim", 0, 2) == 0
	return p
}

// promises promises waiting jobs their starts, mostly well, sometimes too many, or on GPUs that do not exist.
func (g *generator) promises() kernel.Command {
	v := g.w.m.View()
	var c jobverbs.PromiseStarts
	for key := range v.Classes() {
		for j := range v.ClassJobs(key) {
			s := jobverbs.Start{Job: j.ID, Attempt: j.Attempt + 1, At: v.Now() + int64(g.n("in minutes", 0, 90))*60e9}
			for n := range v.Nodes() {
				if len(s.Tasks) == int(j.Shape.Nodes) {
					break
				}
				t := work.TaskPlacement{Node: n.ID}
				first := uint8(g.n("from", 0, 3))
				for i := range min(8, int(j.Shape.GPUs)+int(min(1, j.Shape.FractionMilli))) {
					t.GPUs |= 1 << (first + uint8(i))
				}
				s.Tasks = append(s.Tasks, t)
			}
			c.Starts = append(c.Starts, s)
		}
	}
	return c
}

// checkpointReports tells of checkpoints, mostly what was ordered, sometimes by others or of what is gone.
func (g *generator) checkpointReports() kernel.Command {
	r := checkpointverbs.ReportCheckpoints{Node: g.nodeID()}
	for _, o := range g.w.m.View().CheckpointOrders(r.Node) {
		rep := checkpointverbs.Report{ID: o.ID, Bytes: int64(g.n("bytes", -1, 12)), Key: o.Key, Digest: "sha256:content"}
		switch o.Action {
		case v1.CheckpointAction_UPLOAD:
			rep.Kind = pick(g, "upload", checkpointverbs.ReportUpload, checkpointverbs.ReportStored)
			rep.Gone = g.n("gone", 0, 9) == 0
			rep.Error = pick(g, "error", "", "", reason.Text("the archive is full"))
		case v1.CheckpointAction_REMOVE_FILES:
			rep.Kind = checkpointverbs.ReportFilesRemoved
		default:
			rep.Kind = checkpointverbs.ReportArchivedRemoved
		}
		switch g.n("spoil", 0, 9) {
		case 0:
			rep.Kind = checkpointverbs.ReportKind(g.n("kind", 0, 5))
		case 1:
			rep.Key += "x"
		case 2:
			rep.ID = g.checkpoint()
		case 3:
			continue
		}
		r.Reports = append(r.Reports, rep)
	}
	for range g.n("absurd", 0, 2) {
		id := g.checkpoint()
		r.Reports = append(r.Reports, checkpointverbs.Report{
			ID: id, Kind: checkpointverbs.ReportKind(g.n("kind", 0, 5)), Bytes: 3, Digest: "d",
			Key: checkpoints.ArchiveKey(g.tenant(), g.job(), id),
		})
	}
	return r
}

// reports tells of tasks, mostly of live ones in a sensible order, sometimes of attempts that are over.
func (g *generator) reports() kernel.Command {
	r := jobverbs.ReportTasks{Node: g.nodeID()}
	for j := range g.w.m.View().Jobs(true, 0) {
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if t.Node != r.Node || g.n("skip", 0, 4) == 0 {
				continue
			}
			for range g.n("reports", 1, 3) {
				rep := jobverbs.TaskReport{
					Job: j.ID, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token,
					Kind: jobverbs.ReportKind(g.n("kind", 0, 9)), Time: g.w.now, Gate: g.gate(),
					Phase: v1.JobPhase_Value(g.n("phase", 0, 5)), Step: int64(g.n("step", 0, 3)), Total: 3,
					Path: pick(g, "path", "/c/1", "/c/2", "/c/3", "/c/3/4"), Digest: pick(g, "digest", "x", "y", ""),
					Metrics: pick(g, "metrics", "{}", `{"loss":1}`, `{"loss":-2.5}`, `{"loss":null}`, "not JSON"), SizeBytes: int64(g.n("size", 0, 9)),
					Model:     g.n("model", 0, 7) == 0,
					Benchmark: pick(g, "benchmark", "mmlu", "mmlu", "arc", ""), Samples: int64(g.n("samples", -1, 2)),
					Transfer: pick(g, "transfer", "", "a", "b", strings.Repeat("c", work.MaxTransfer+1)),
				}
				if rep.Kind == jobverbs.ReportEnded {
					if code := int32(pick(g, "exit", 0, 0, 0, 1, 137, -1)); code >= 0 {
						rep.ExitCode = &code
					}
					rep.ErrorType = v1.ErrorType_Value(pick(g, "error", 0, 0, 0, 1, 2, 3, 4, 5, 8, 9, 12))
				}
				switch g.n("spoil", 0, 15) {
				case 0:
					rep.Token--
				case 1:
					rep.Attempt++
				case 2:
					rep.Rank += 7
				case 3:
					rep.Job = 77
				}
				r.Reports = append(r.Reports, rep)
			}
		}
		for _, a := range j.Awaits {
			if a.Node == r.Node && g.n("late", 0, 2) == 0 {
				r.Reports = append(r.Reports, jobverbs.TaskReport{
					Job: j.ID, Attempt: a.Attempt, Rank: a.Rank, Token: a.Token, Kind: jobverbs.ReportKind(g.n("kind", 1, 6)), Path: "/c/3", Digest: "z",
				})
			}
		}
	}
	return r
}
