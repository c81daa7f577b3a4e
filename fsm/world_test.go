package fsm

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// world drives one machine through a log that it keeps.
type world struct {
	t     require.TestingT
	m     *Machine
	index uint64
	now   int64
	log   []Entry
}

const startOfTime = int64(1_700_000_000_000_000_000)

func newWorld(t require.TestingT) *world { return &world{t: t, m: New(), now: startOfTime} }

func (w *world) entry(cmds ...Command) []byte {
	raw := make([][]byte, len(cmds))
	for i, c := range cmds {
		b, err := Encode(c)
		require.NoError(w.t, err)
		raw[i] = b
	}
	return Pack(time.Unix(0, w.now), raw)
}

// do applies one entry with these commands, and checks that everything holds afterwards.
func (w *world) do(cmds ...Command) []any {
	w.index++
	e := Entry{Index: w.index, Data: w.entry(cmds...)}
	w.log = append(w.log, e)
	res := w.m.Apply(e.Index, e.Data)
	require.Empty(w.t, Check(w.m.View()))
	return res
}

func do[R any](w *world, c Command) R {
	res := w.do(c)
	require.Len(w.t, res, 1)
	return res[0].(R)
}

func (w *world) later(d time.Duration) { w.now += int64(d) }

func (w *world) submit(n NewJob) JobID {
	r := do[SubmitJobsResult](w, SubmitJobs{Jobs: []NewJob{n}}).Results[0]
	require.Nil(w.t, r.Refusal)
	return r.Job
}

func (w *world) job(id JobID) *Job {
	j, ok := w.m.View().Job(id)
	require.True(w.t, ok)
	return j
}

func (w *world) node(id string, gpus int) *Node {
	r := do[NodeResult](w, RegisterNode{Node: testNode(id, "boot1", gpus)})
	require.Nil(w.t, r.Refusal)
	return r.Node
}

// place puts a job on nodes, on GPU 0 and up of each.
func (w *world) place(id JobID, nodes ...string) uint64 {
	r := do[PlaceResult](w, PlaceJobs{BasedOn: w.index, Placements: []Placement{w.placement(id, nodes...)}})
	require.Empty(w.t, r.Refused)
	require.Len(w.t, r.Placed, 1)
	return r.Placed[0].Token
}

func (w *world) placement(id JobID, nodes ...string) Placement {
	j := w.job(id)
	p := Placement{Job: id, Attempt: j.Attempt + 1}
	for _, n := range nodes {
		row, ok := w.m.View().Node(n)
		require.True(w.t, ok)
		use := w.m.View().Use(n)
		free, gpus := Eligible(row, &use, j.Shape), uint64(0)
		for want := int(j.Shape.GPUs); want > 0; want-- {
			bit := free & -free
			gpus, free = gpus|bit, free&^bit
		}
		if j.Shape.FractionMilli > 0 {
			gpus = free & -free
		}
		p.Tasks = append(p.Tasks, TaskPlacement{Node: n, GPUs: gpus})
	}
	return p
}

// report sends one report of a task of the newest attempt.
func (w *world) report(id JobID, rank uint16, kind ReportKind, change ...func(*TaskReport)) ReportResult {
	j := w.job(id)
	r := TaskReport{Job: id, Attempt: j.Attempt, Rank: rank, Token: j.Token, Kind: kind, Time: w.now}
	for _, f := range change {
		f(&r)
	}
	return do[ReportResult](w, ReportTasks{Node: j.Tasks[rank].Node, Reports: []TaskReport{r}})
}

func exit(code int32) func(*TaskReport) {
	return func(r *TaskReport) { r.ExitCode = &code }
}

func failed(e v1.ErrorType_Value, message string) func(*TaskReport) {
	return func(r *TaskReport) { r.ErrorType, r.ErrorMessage = e, message }
}

// run brings a placed job to RUNNING.
func (w *world) run(id JobID) {
	for rank := range w.job(id).Tasks {
		w.report(id, uint16(rank), ReportStarting)
		w.report(id, uint16(rank), ReportRunning)
	}
	require.Equal(w.t, v1.JobState_RUNNING, w.job(id).State)
}

func testNode(id, boot string, gpus int) Node {
	n := Node{
		ID: id, Hostname: id, BootID: boot, CPUs: 64, MemMB: 512 << 10, GRPCAddr: id + ":7000",
		Labels: map[string]string{"zone": "a", "name": id},
	}
	for i := range gpus {
		n.GPUs = append(n.GPUs, GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", id, i), Index: uint8(i), Model: "NVIDIA H100 80GB HBM3", Type: "H100",
			MemMB: 81559, NVLink: (1<<gpus - 1) &^ (1 << i), Health: v1.GpuHealth_HEALTHY,
		})
	}
	return n
}

func oneGPU() NewJob {
	return NewJob{
		Tenant: "acme", User: "ada", Name: "train", Priority: 5, Spec: []byte("spec"),
		Shape: Shape{Nodes: 1, GPUs: 1}, Labels: map[string]string{"team": "nlp"},
	}
}

func snapshotBytes(t require.TestingT, m *Machine) []byte {
	var b bytes.Buffer
	n, err := m.Snapshot().WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// sameState requires that two machines cannot be told apart.
func sameState(t require.TestingT, a, b *Machine) {
	require.Equal(t, a.View().Index(), b.View().Index())
	require.Equal(t, a.View().Hash(), b.View().Hash())
	require.True(t, bytes.Equal(snapshotBytes(t, a), snapshotBytes(t, b)), "snapshots differ")
}

func TestWorld_startsSound(t *testing.T) {
	w := newWorld(t)
	require.Empty(t, Check(w.m.View()))
	_, ok := w.m.View().Queue(DefaultQueue)
	require.True(t, ok)
}
