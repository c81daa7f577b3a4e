package joblist

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// manyJobs returns a state with jobs in the gateway's form, each adapted by change. The scheduler has considered all
// but the last ones.
func manyJobs(t testing.TB, jobs, perEntry, pending int, change func(i int, j *jobverbs.NewJob)) *fsm.Machine {
	m := fsm.New()
	var commands [][]byte
	index := uint64(0)
	apply := func(commands ...[]byte) {
		index++
		m.Apply(index, kernel.Pack(level.Newest, time.Unix(0, int64(index)), commands))
	}
	encode := func(c kernel.Command) []byte {
		b, err := kernel.Encode(level.Newest, c)
		require.NoError(t, err)
		return b
	}
	considered := uint64(0)
	for i := range jobs {
		name := fmt.Sprintf("train-%06d", i)
		spec, err := proto.Marshal(&v1.SubmitJobRequest{
			Name: name, CommandConfig: &v1.CommandConfig{Argv: []string{"python3", "train.py"}, Environment: map[string]string{"SEED": name}},
			ResourceConfig: &v1.ResourceConfig{GpuCount: 1, GpuType: "H100"},
		})
		require.NoError(t, err)
		j := jobverbs.NewJob{
			Tenant: "acme", User: "ada", Name: name, Queue: work.DefaultQueue, Priority: 5, Spec: spec, Shape: work.Shape{Nodes: 1, GPUs: 1, GPUType: "H100"},
			Labels: map[string]string{"team": "nlp", "run": fmt.Sprint(i)}, LostAfter: work.DefaultLostAfter, GiveUpAfter: work.DefaultGiveUpAfter, Grace: work.DefaultGrace,
		}
		if change != nil {
			change(i, &j)
		}
		commands = append(commands, encode(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}}))
		if len(commands) == perEntry || i == jobs-1 {
			apply(commands...)
			commands = nil
		}
		if i < jobs-pending {
			considered = index
		}
	}
	apply(encode(jobverbs.PlaceJobs{BasedOn: considered}))
	return m
}

// For random queries and page sizes, a list equals the result of a walk over all jobs.
func TestList_isWhatAWalkOverAllJobsFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const jobs = 400
	tenants, queues := []string{"acme", "acm", "umbrella"}, []string{"default", "fast"}
	m := manyJobs(t, jobs, 3, 40, func(i int, j *jobverbs.NewJob) {
		j.Tenant, j.Priority = tenants[random.IntN(3)], uint8(3+random.IntN(3))
		j.Labels = map[string]string{"team": []string{"nlp", "cv"}[random.IntN(2)], "run": fmt.Sprint(i % 50)}
		if random.IntN(4) == 0 {
			j.Labels[work.EvaluationLabel] = work.EvaluationValue
		}
	})
	index := m.View().Index()
	apply := func(c kernel.Command) {
		index++
		b, err := kernel.Encode(level.Newest, c)
		require.NoError(t, err)
		m.Apply(index, kernel.Pack(level.Newest, time.Unix(0, int64(index)), [][]byte{b}))
	}
	for j := range m.View().Jobs(false, 0) {
		if random.IntN(3) == 0 {
			apply(jobverbs.ControlJob{Job: j.ID, Action: []work.Action{work.ActionCancel, work.ActionPause}[random.IntN(2)]})
		}
	}
	v := m.View()
	require.Empty(t, fsm.Check(v))
	statuses := []v1.JobStatus_Value{v1.JobStatus_PENDING, v1.JobStatus_QUEUED, v1.JobStatus_PAUSED, v1.JobStatus_CANCELLED, v1.JobStatus_FAILED}
	seen := 0
	for range 2000 {
		req := &v1.ListJobsRequest{
			OrderBy: []string{"", "created_at", "created_at desc", "priority desc"}[random.IntN(4)], PageSize: int32(1 + random.IntN(30)),
		}
		for _, s := range statuses {
			if random.IntN(4) == 0 {
				req.Status = append(req.Status, s)
			}
		}
		if random.IntN(3) == 0 {
			req.Queue = queues[random.IntN(2)]
		}
		for _, label := range []string{"team=nlp", "run=7", "type=evaluation"} {
			if random.IntN(5) == 0 {
				req.Label = append(req.Label, label)
			}
		}
		tenant := tenants[random.IntN(3)]
		scan := []int{7, 50, maxScanned}[random.IntN(3)]

		// A walk over all jobs.
		plain, err := Parse(req, "jobs")
		require.NoError(t, err)
		var want []ident.Job
		var rows []*work.Job
		for j := range v.Jobs(plain.order == byAgeDesc, 0) {
			evaluation := !plain.evaluations || j.Evaluation()
			if j.Tenant == tenant && (req.Queue == "" || j.Queue == req.Queue) && evaluation && plain.matches(v, j) {
				rows = append(rows, j)
			}
		}
		if plain.order == byPriority {
			slices.SortStableFunc(rows, func(a, b *work.Job) int { return cmp.Compare(b.Priority, a.Priority) })
		}
		for _, j := range rows {
			want = append(want, j.ID)
		}

		var got []ident.Job
		for pages := 0; ; pages++ {
			q, err := Parse(req, "jobs")
			require.NoError(t, err)
			q.scan = scan
			found := q.Find(v, tenant)
			require.LessOrEqual(t, len(found.Jobs), int(req.PageSize))
			if found.Exact {
				require.Equal(t, len(want), found.Total, "%v", req)
			} else {
				require.LessOrEqual(t, found.Total, len(want), "%v", req)
			}
			require.True(t, found.Exact || scan < maxScanned)
			for _, j := range found.Jobs {
				got = append(got, j.ID)
			}
			if found.Next == "" {
				break
			}
			require.True(t, len(found.Jobs) == int(req.PageSize) || scan < maxScanned, "a page ends early only because of its bound")
			req.PageToken = found.Next
			require.Less(t, pages, jobs)
		}
		require.Equal(t, want, got, "%v", req)
		seen += len(got)
	}
	require.Greater(t, seen, 10_000)
}

// A page examines a bounded number of jobs for every query, and the next page continues where it ended.
func TestList_looksAtAFewOfManyJobs(t *testing.T) {
	const jobs = 3 * maxScanned
	m := manyJobs(t, jobs, 64, 0, nil)
	v := m.View()
	list := func(req *v1.ListJobsRequest) Page {
		q, err := Parse(req, "jobs")
		require.NoError(t, err)
		return q.Find(v, "acme")
	}
	all := list(&v1.ListJobsRequest{})
	require.True(t, all.Exact)
	require.Equal(t, jobs, all.Total)
	require.Len(t, all.Jobs, defaultPage)

	req := &v1.ListJobsRequest{Label: []string{"run=3"}}
	first := list(req)
	require.Empty(t, first.Jobs, "it is among the oldest")
	require.False(t, first.Exact)
	require.NotEmpty(t, first.Next)
	req.PageToken = first.Next
	req.PageToken = list(req).Next
	last := list(req)
	require.Len(t, last.Jobs, 1)
	require.Equal(t, "train-000003", last.Jobs[0].Name)
	require.True(t, last.Exact)
	require.Equal(t, 1, last.Total)
	require.Empty(t, last.Next)

	many := list(&v1.ListJobsRequest{Label: []string{"team=nlp"}, PageSize: 10})
	require.Len(t, many.Jobs, 10)
	require.False(t, many.Exact)
	require.Equal(t, maxScanned, many.Total, "at least so many")
	second := list(&v1.ListJobsRequest{Label: []string{"team=nlp"}, PageSize: 10, PageToken: many.Next})
	require.Equal(t, maxScanned+10, second.Total, "what earlier pages found counts")
}

// BenchmarkList lists 50 of many jobs, as GET /jobs does, without the network.
func BenchmarkList(b *testing.B) {
	for _, jobs := range []int{1000, 100_000, 1_000_000} {
		var v *fsm.View
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			if v == nil {
				v = manyJobs(b, jobs, 64, 100, func(i int, j *jobverbs.NewJob) { j.Priority = uint8(i % 11) }).View()
			}
			for _, list := range []struct {
				name string
				req  *v1.ListJobsRequest
			}{
				{"newest", &v1.ListJobsRequest{}},
				{"priority", &v1.ListJobsRequest{OrderBy: "priority desc"}},
				{"status", &v1.ListJobsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_QUEUED}}},
				{"status_few", &v1.ListJobsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_PENDING}}},
				{"status_none", &v1.ListJobsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_FAILED}}},
				{"evaluations", &v1.ListJobsRequest{Label: []string{"type=evaluation"}}},
				{"label_most", &v1.ListJobsRequest{Label: []string{"team=nlp"}}},
				{"label_one", &v1.ListJobsRequest{Label: []string{"run=17"}}},
			} {
				b.Run(list.name, func(b *testing.B) {
					list.req.PageSize = 50
					for b.Loop() {
						q, err := Parse(list.req, "jobs")
						require.NoError(b, err)
						for _, j := range q.Find(v, "acme").Jobs {
							jobview.Of(v, j, false)
						}
					}
				})
			}
			b.Run("one", func(b *testing.B) {
				for j := range v.JobsOfGroups(slices.Collect(v.JobGroups("acme")), false, 0) {
					for b.Loop() {
						jobview.Of(v, j, true)
					}
					break
				}
			})
		})
	}
}
