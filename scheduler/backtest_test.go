package scheduler_test

import (
	"cmp"
	"container/heap"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// traced is a job of a workload: its user, its GPUs, its time of arrival and its duration.
type traced struct {
	name       string
	gpus       int
	came, took time.Duration
}

// quality measures the quality of the estimates of a workload.
type quality struct {
	waited, estimated int
	// off are the errors of the estimates, as parts of the actual wait. early is the part of the estimates that were
	// too early.
	off   []float64
	early float64
}

func (w quality) String() string {
	return fmt.Sprintf("%d jobs that waited, %.0f %% with an estimate, off by %.0f %% of the wait (median; three quarters of them by less than %.0f %%), %.0f %% too early",
		w.waited, 100*w.known(), 100*w.at(0.5), 100*w.at(0.75), 100*w.early)
}

func (w quality) known() float64 { return float64(w.estimated) / float64(max(1, w.waited)) }

func (w quality) at(part float64) float64 {
	if len(w.off) == 0 {
		return math.Inf(1)
	}
	return w.off[int(part*float64(len(w.off)-1))]
}

// replay runs a workload on a number of nodes of eight GPUs, and asks for the start of every n-th (every) job that
// cannot start at once. With limits each job has a time limit equal to its duration; without limits, only earlier jobs
// help to estimate it.
func replay(t testing.TB, jobs []traced, nodes, every int, limits bool) quality {
	if testing.Short() {
		t.Skip("days of a cluster on one goroutine")
	}
	s := newState(t)
	s.step = 0
	for i := range nodes {
		id := fmt.Sprintf("n%03d", i)
		s.node(id, gpus(id, "V100", 8, 8), nil)
	}
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b traced) int { return cmp.Compare(a.came, b.came) })
	start := s.now
	var (
		ends     due
		took     = map[ident.Job]time.Duration{}
		foretold = map[ident.Job]int64{}
		out      quality
		waiting  = map[ident.Job]time.Time{}
	)
	place := func() {
		for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{Quiet: true}).Commands {
			for _, id := range s.apply(c)[0].(jobverbs.PlaceResult).Placed {
				s.begin(id.Job)
				heap.Push(&ends, end{s.now.Add(took[id.Job]), id.Job})
				if asked, waited := waiting[id.Job]; waited {
					delete(waiting, id.Job)
					at, ok := foretold[id.Job]
					out.waited++
					if !ok {
						continue
					}
					out.estimated++
					wait := s.now.Sub(asked)
					out.off = append(out.off, math.Abs(float64(at-s.now.UnixNano()))/float64(wait))
					if at < s.now.UnixNano() {
						out.early++
					}
				}
			}
		}
	}
	late := 0
	for len(jobs) > 0 || len(ends) > 0 {
		if len(jobs) == 0 || len(ends) > 0 && !ends[0].at.After(start.Add(jobs[0].came)) {
			e := heap.Pop(&ends).(end)
			s.now = e.at
			s.over(e.job, 0)
			place()
			continue
		}
		j := jobs[0]
		jobs = jobs[1:]
		s.now = start.Add(j.came)
		a := asked{name: j.name, gpus: j.gpus, nodes: 1}
		if j.gpus > 8 {
			a.gpus, a.nodes = 8, (j.gpus+7)/8
		}
		if limits {
			// No other job has this name, so nothing else is known of the job.
			a.name, a.limit = fmt.Sprintf("%s-%dx", j.name, len(jobs)), j.took
		}
		id := s.ask(a)
		took[id] = j.took
		place()
		if s.get(id).State != v1.JobState_QUEUED {
			continue
		}
		if late++; late%every != 0 {
			continue
		}
		waiting[id] = s.now
		if f, ok := s.foresee("t").Start(id); ok && f.At != 0 {
			foretold[id] = f.At
		}
	}
	slices.Sort(out.off)
	out.early /= float64(max(1, out.estimated))
	return out
}

type end struct {
	at  time.Time
	job ident.Job
}

type due []end

func (d due) Len() int           { return len(d) }
func (d due) Less(a, b int) bool { return d[a].at.Before(d[b].at) }
func (d due) Swap(a, b int)      { d[a], d[b] = d[b], d[a] }
func (d *due) Push(x any)        { *d = append(*d, x.(end)) }
func (d *due) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// made returns a workload of twenty kinds of jobs. The durations of each kind vary around a usual one.
func made(n int) []traced {
	r := rand.New(rand.NewPCG(42, 42))
	var out []traced
	came := time.Duration(0)
	for range n {
		kind := r.IntN(20)
		usual := time.Duration(5+13*kind) * time.Minute
		out = append(out, traced{
			name: fmt.Sprintf("kind-%c", 'a'+kind), gpus: []int{1, 1, 2, 4, 8}[kind%5], came: came,
			took: time.Duration(float64(usual) * math.Exp(r.NormFloat64()/4)),
		})
		came += time.Duration(r.ExpFloat64() * float64(6*time.Minute))
	}
	return out
}

func TestForesee_isWorthSomething(t *testing.T) {
	jobs := made(400)
	for _, limits := range []bool{true, false} {
		w := replay(t, jobs, 4, 2, limits)
		t.Logf("limits %v: %s", limits, w)
		require.Greater(t, w.waited, 50)
		require.Greater(t, w.known(), 0.7)
		require.Less(t, w.at(0.5), 0.2)
	}
}

// TestForesee_onATrace uses jobs of a production cluster. MIND_TRACES names a folder with philly/philly_jobs.csv,
// derived from Microsoft's Philly trace (job_id, user, num_gpu, submit_time and duration in minutes). The user serves
// as the job's name.
func TestForesee_onATrace(t *testing.T) {
	folder := os.Getenv("MIND_TRACES")
	if folder == "" {
		t.Skip("MIND_TRACES is not set: no traces to read")
	}
	file, err := os.Open(filepath.Join(folder, "philly", "philly_jobs.csv"))
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	var jobs []traced
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	for _, row := range rows[1:] {
		if n := number(row[2]); n > 0 {
			jobs = append(jobs, traced{name: row[1] + "x", gpus: n, came: time.Duration(number(row[3])) * time.Minute, took: time.Duration(max(1, number(row[4]))) * time.Minute})
		}
	}
	slices.SortStableFunc(jobs, func(a, b traced) int { return cmp.Compare(a.came, b.came) })
	jobs = jobs[:4000]
	for _, limits := range []bool{true, false} {
		w := replay(t, jobs, 100, 10, limits)
		t.Logf("limits %v: %s", limits, w)
		require.NotZero(t, w.estimated)
	}
}
