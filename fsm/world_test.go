package fsm_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// entry is a log entry and its index.
type entry struct {
	Index uint64
	Data  []byte
}

// world drives one machine through a log that it keeps.
type world struct {
	t require.TestingT
	m *fsm.Machine
	// working is the state that m applies entries to.
	working *inside
	index   uint64
	now     int64
	// at is the level at which entries are written.
	at  level.Level
	log []entry
}

const startOfTime = int64(1_700_000_000_000_000_000)

func newWorld(t require.TestingT) *world {
	w := &world{t: t, working: &inside{}, now: startOfTime, at: level.Newest}
	see := kernel.Domain{Name: "inside", Open: func(s *kernel.State) kernel.Part {
		w.working.state = s
		return w.working
	}}
	w.m = kernel.New(fsm.Composition(kernel.Register(append(fsm.Domains(), see)...)))
	return w
}

// inside is a domain without anything of its own, that sees the state from inside.
type inside struct{ state *kernel.State }

func (i *inside) Freeze(*kernel.State) kernel.Part { return &inside{} }

// tables are those that entries are applied to.
func (w *world) tables() *tables.State { return tables.Of(w.working.state) }

// publish makes a view of what a test has done to the tables.
func (w *world) publish() *fsm.View {
	w.m.StoreConfiguration(w.m.View().Index(), w.m.View().Voters())
	return w.m.View()
}

// replay applies the log to another machine.
func (w *world) replay(m *fsm.Machine) {
	for _, e := range w.log {
		m.Apply(e.Index, e.Data)
	}
}

func (w *world) entry(cmds ...kernel.Command) []byte {
	raw := make([][]byte, len(cmds))
	for i, c := range cmds {
		b, err := kernel.Encode(w.at, c)
		require.NoError(w.t, err)
		raw[i] = b
	}
	return kernel.Pack(w.at, time.Unix(0, w.now), raw)
}

// do applies one entry with these commands, and checks that everything holds afterwards.
func (w *world) do(cmds ...kernel.Command) []any {
	w.index++
	e := entry{Index: w.index, Data: w.entry(cmds...)}
	w.log = append(w.log, e)
	res := w.m.Apply(e.Index, e.Data)
	require.Empty(w.t, fsm.Check(w.m.View()))
	return res
}

func do[R any](w *world, c kernel.Command) R {
	res := w.do(c)
	require.Len(w.t, res, 1)
	return res[0].(R)
}

func (w *world) later(d time.Duration) { w.now += int64(d) }

func (w *world) submit(n jobverbs.NewJob) ident.Job {
	r := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{n}}).Results[0]
	require.Nil(w.t, r.Refusal)
	return r.Job
}

func (w *world) job(id ident.Job) *work.Job {
	j, ok := w.m.View().Job(id)
	require.True(w.t, ok)
	return j
}

func (w *world) node(id string, gpus int) *work.Node {
	r := do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: testNode(id, "boot1", gpus)})
	require.Nil(w.t, r.Refusal)
	return r.Node
}

// place puts a job on nodes, on GPU 0 and up of each.
func (w *world) place(id ident.Job, nodes ...string) uint64 {
	r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{BasedOn: w.index, Placements: []work.Placement{w.placement(id, nodes...)}})
	require.Empty(w.t, r.Refused)
	require.Len(w.t, r.Placed, 1)
	return r.Placed[0].Token
}

func (w *world) placement(id ident.Job, nodes ...string) work.Placement {
	j, ok := w.m.View().Find(id)
	require.True(w.t, ok)
	p := work.Placement{Job: id, Attempt: j.Attempt + 1}
	for _, n := range nodes {
		row, ok := w.m.View().Node(n)
		require.True(w.t, ok)
		use := w.m.View().Use(n)
		free, gpus := work.Eligible(row, &use, j.Shape), uint64(0)
		for want := int(j.Shape.GPUs); want > 0; want-- {
			bit := free & -free
			gpus, free = gpus|bit, free&^bit
		}
		if j.Shape.FractionMilli > 0 {
			gpus = free & -free
		}
		p.Tasks = append(p.Tasks, work.TaskPlacement{Node: n, GPUs: gpus})
	}
	return p
}

// report sends one report of a task of the newest attempt.
func (w *world) report(id ident.Job, rank uint16, kind jobverbs.ReportKind, change ...func(*jobverbs.TaskReport)) jobverbs.ReportResult {
	j := w.job(id)
	r := jobverbs.TaskReport{Job: id, Attempt: j.Attempt, Rank: rank, Token: j.Token, Kind: kind, Time: w.now}
	for _, f := range change {
		f(&r)
	}
	return do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: j.Tasks[rank].Node, Reports: []jobverbs.TaskReport{r}})
}

func exit(code int32) func(*jobverbs.TaskReport) {
	return func(r *jobverbs.TaskReport) { r.ExitCode = &code }
}

func failed(e v1.ErrorType_Value, message string) func(*jobverbs.TaskReport) {
	return func(r *jobverbs.TaskReport) { r.ErrorType, r.ErrorMessage = e, reason.Text(message) }
}

// run brings a placed job to RUNNING.
func (w *world) run(id ident.Job) {
	for rank := range w.job(id).Tasks {
		w.report(id, uint16(rank), jobverbs.ReportStarting)
		w.report(id, uint16(rank), jobverbs.ReportRunning)
	}
	require.Equal(w.t, v1.JobState_RUNNING, w.job(id).State)
}

func testNode(id, boot string, gpus int) work.Node {
	n := work.Node{
		ID: id, Hostname: id, BootID: boot, CPUs: 64, MemMB: 512 << 10, GRPCAddr: id + ":7000",
		Labels: map[string]string{"zone": "a", "name": id},
	}
	for i := range gpus {
		n.GPUs = append(n.GPUs, work.GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", id, i), Index: uint8(i), Model: "NVIDIA H100 80GB HBM3", Type: "H100",
			MemMB: 81559, NVLink: (1<<gpus - 1) &^ (1 << i), Health: v1.GpuHealth_HEALTHY,
		})
	}
	return n
}

func oneGPU() jobverbs.NewJob {
	return jobverbs.NewJob{
		Tenant: "acme", User: "ada", Name: "train", Priority: 5, Spec: []byte("spec"),
		Shape: work.Shape{Nodes: 1, GPUs: 1}, Labels: map[string]string{"team": "nlp"},
	}
}

func snapshotBytes(t require.TestingT, m *fsm.Machine) []byte {
	var b bytes.Buffer
	n, err := m.Snapshot().WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// sameState requires that two machines cannot be told apart.
func sameState(t require.TestingT, a, b *fsm.Machine) {
	require.Equal(t, a.View().Index(), b.View().Index())
	require.Equal(t, a.View().Hash(), b.View().Hash())
	require.True(t, bytes.Equal(snapshotBytes(t, a), snapshotBytes(t, b)), "snapshots differ")
}

func TestWorld_startsSound(t *testing.T) {
	w := newWorld(t)
	require.Empty(t, fsm.Check(w.m.View()))
	_, ok := w.m.View().Queue(work.DefaultQueue)
	require.True(t, ok)
}
