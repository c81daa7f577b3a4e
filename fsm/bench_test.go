package fsm_test

import (
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// benchJob is a job as the gateway would send it: a command, an environment, labels, a minted key.
func benchJob(b testing.TB, i int) jobverbs.NewJob {
	spec, err := proto.Marshal(&v1.SubmitJobRequest{
		Name: fmt.Sprintf("train-%06d", i),
		CommandConfig: &v1.CommandConfig{
			Argv: []string{"python3", "train.py", "--config", "configs/base.yaml", "--seed", fmt.Sprint(i)},
			Cwd:  "/home/ada/experiments/llm", Environment: map[string]string{"WANDB_PROJECT": "llm", "SEED": fmt.Sprint(i)},
		},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 1, GpuType: "H100"},
		Labels:         map[string]string{"team": "nlp", "run": fmt.Sprint(i)},
	})
	require.NoError(b, err)
	return jobverbs.NewJob{
		Tenant: "acme", User: "ada", Name: fmt.Sprintf("train-%06d", i), Queue: work.DefaultQueue, Priority: 5,
		Spec: spec, Shape: work.Shape{Nodes: 1, GPUs: 1, GPUType: "H100"},
		Labels: map[string]string{"team": "nlp", "run": fmt.Sprint(i)},
		Retry:  work.RetryPolicy{On: work.RetryInfrastructure}, LostAfter: work.DefaultLostAfter, GiveUpAfter: work.DefaultGiveUpAfter, Grace: work.DefaultGrace,
		Key: fmt.Sprintf("auto:%032x", uint64(i)*0x9e3779b97f4a7c15), Fingerprint: uint64(i), AutoKey: true,
	}
}

// cpu is the processor time that this process has used. Beside wall time, it says what a thing costs on a machine that
// others use too; it counts the garbage collector.
func cpu(b testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// submitEntries makes entries of n commands of one job each, as the proposer packs them.
func submitEntries(b testing.TB, jobs, perEntry int) []entry {
	return entriesBy(b, jobs, perEntry, func(int) *access.Actor { return nil })
}

// entriesBy are the same of somebody, who is audited.
func entriesBy(b testing.TB, jobs, perEntry int, actor func(i int) *access.Actor) []entry {
	var entries []entry
	var cmds [][]byte
	for i := range jobs {
		c, err := kernel.Encode(level.Newest, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{benchJob(b, i)}, Actor: actor(i)})
		require.NoError(b, err)
		cmds = append(cmds, c)
		if len(cmds) == perEntry || i == jobs-1 {
			entries = append(entries, entry{Index: uint64(len(entries) + 1), Data: kernel.Pack(level.Newest, time.Unix(0, startOfTime), cmds)})
			cmds = nil
		}
	}
	return entries
}

func BenchmarkApplySubmit(b *testing.B) {
	for _, per := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("perEntry=%d", per), func(b *testing.B) {
			const jobs = 100_000
			entries := submitEntries(b, jobs, per)
			b.ReportAllocs()
			done, from := 0, cpu(b)
			for b.Loop() {
				m := fsm.New()
				for _, e := range entries {
					m.Apply(e.Index, e.Data)
				}
				done += jobs
			}
			b.ReportMetric(float64(cpu(b)-from)/float64(done), "cpu-ns/job")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/job")
		})
	}
}

// BenchmarkApplySubmitAudited is BenchmarkApplySubmit with an audit record for each job, so that both can be compared in one run.
func BenchmarkApplySubmitAudited(b *testing.B) {
	const jobs = 100_000
	with := entriesBy(b, jobs, 16, func(i int) *access.Actor {
		return &access.Actor{Token: ident.Token(7), Request: fmt.Sprintf("req_%026d", i)}
	})
	without := submitEntries(b, jobs, 16)
	b.ReportAllocs()
	var spent [2]time.Duration
	done := 0
	for b.Loop() {
		for turn := range 4 { // Each comes first as often as the other.
			i := (turn + turn/2) % 2
			entries := [][]entry{without, with}[i]
			runtime.GC()
			m, from := fsm.New(), cpu(b)
			for _, e := range entries {
				m.Apply(e.Index, e.Data)
			}
			spent[i] += cpu(b) - from
		}
		done += 2 * jobs
	}
	b.ReportMetric(float64(spent[0])/float64(done), "cpu-ns/job")
	b.ReportMetric(float64(spent[1])/float64(done), "audited-cpu-ns/job")
}

func BenchmarkDecodeSubmit(b *testing.B) {
	entries := submitEntries(b, 6400, 64)
	b.ReportAllocs()
	done, from := 0, cpu(b)
	for b.Loop() {
		for _, e := range entries {
			err := fsm.CheckEntry(e.Data)
			require.NoError(b, err)
		}
		done += 6400
	}
	b.ReportMetric(float64(cpu(b)-from)/float64(done), "cpu-ns/job")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/job")
}

func BenchmarkEncodeSubmit(b *testing.B) {
	c := jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{benchJob(b, 1)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kernel.Encode(level.Newest, c); err != nil {
			b.Fatal(err)
		}
	}
}

// benchCluster has nodes of 8 GPUs and queued jobs.
func benchCluster(b testing.TB, nodes, jobs int) (*fsm.Machine, uint64) {
	m := fsm.New()
	index := uint64(0)
	do := func(cmds ...kernel.Command) {
		raw := make([][]byte, len(cmds))
		for i, c := range cmds {
			var err error
			raw[i], err = kernel.Encode(level.Newest, c)
			require.NoError(b, err)
		}
		index++
		m.Apply(index, kernel.Pack(level.Newest, time.Unix(0, startOfTime), raw))
	}
	for i := range nodes {
		do(nodeverbs.RegisterNode{Node: testNode(fmt.Sprintf("n%04d", i), "boot1", 8)})
	}
	for _, e := range submitEntries(b, jobs, 64) {
		index++
		m.Apply(index, e.Data)
	}
	return m, index
}

func BenchmarkApplyPlace(b *testing.B) {
	const nodes, perEntry = 1250, 250
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m, index := benchCluster(b, nodes, nodes*8)
		var entries [][]byte
		var p jobverbs.PlaceJobs
		i := 0
		for j := range m.View().Jobs(false, 0) {
			p.Placements = append(p.Placements, work.Placement{
				Job: j.ID, Attempt: 1, Tasks: []work.TaskPlacement{{Node: fmt.Sprintf("n%04d", i/8), GPUs: 1 << (i % 8)}},
			})
			if i++; i%perEntry == 0 {
				c, err := kernel.Encode(level.Newest, p)
				require.NoError(b, err)
				entries = append(entries, kernel.Pack(level.Newest, time.Unix(0, startOfTime), [][]byte{c}))
				p = jobverbs.PlaceJobs{}
			}
		}
		b.StartTimer()
		for _, e := range entries {
			index++
			res := m.Apply(index, e)[0].(jobverbs.PlaceResult)
			require.Empty(b, res.Refused)
			done += len(res.Placed)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/placement")
}

func BenchmarkApplyReport(b *testing.B) {
	const nodes = 1250
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m, index := benchCluster(b, nodes, nodes*8)
		var p jobverbs.PlaceJobs
		i := 0
		var byNode [nodes]jobverbs.ReportTasks
		zero := int32(0)
		for j := range m.View().Jobs(false, 0) {
			node := fmt.Sprintf("n%04d", i/8)
			p.Placements = append(p.Placements, work.Placement{
				Job: j.ID, Attempt: 1, Tasks: []work.TaskPlacement{{Node: node, GPUs: 1 << (i % 8)}},
			})
			r := &byNode[i/8]
			r.Node = node
			for _, k := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning, jobverbs.ReportEnded} {
				rep := jobverbs.TaskReport{Job: j.ID, Attempt: 1, Token: index + 1, Kind: k, Time: startOfTime}
				if k == jobverbs.ReportEnded {
					rep.ExitCode = &zero
				}
				r.Reports = append(r.Reports, rep)
			}
			i++
		}
		c, err := kernel.Encode(level.Newest, p)
		require.NoError(b, err)
		index++
		m.Apply(index, kernel.Pack(level.Newest, time.Unix(0, startOfTime), [][]byte{c}))
		var entries [][]byte
		for i := range byNode {
			c, err := kernel.Encode(level.Newest, byNode[i])
			require.NoError(b, err)
			entries = append(entries, kernel.Pack(level.Newest, time.Unix(0, startOfTime), [][]byte{c}))
		}
		b.StartTimer()
		for _, e := range entries {
			index++
			m.Apply(index, e)
			done += 8
		}
		b.StopTimer()
		require.Equal(b, nodes*8, m.View().Counts().Of(v1.JobState_SUCCEEDED))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/job")
}

func BenchmarkSnapshot(b *testing.B) {
	m, _ := benchCluster(b, 1250, 100_000)
	b.ReportAllocs()
	var size int64
	for b.Loop() {
		n, err := m.Snapshot().WriteTo(io.Discard)
		require.NoError(b, err)
		size = n
	}
	b.ReportMetric(float64(size)/100_000, "B/job")
}

func BenchmarkAhead(b *testing.B) {
	m, _ := benchCluster(b, 1, 100_000)
	v := m.View()
	var last *work.Job
	for j := range v.Jobs(true, 0) {
		last = j
		break
	}
	for b.Loop() {
		require.Equal(b, 99_999, v.Ahead(last))
	}
}

// BenchmarkMemory says what a queued job with its idempotency key costs.
func BenchmarkMemory(b *testing.B) {
	const jobs = 100_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	for b.Loop() {
		m := fsm.New()
		before := heap()
		for i, e := range submitEntries(b, jobs, 64) {
			m.Apply(uint64(i+1), e.Data)
		}
		b.ReportMetric(float64(heap()-before)/jobs, "B/job")
		runtime.KeepAlive(m)
	}
}
