package joblist

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
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
	none := int32(bounds.None)
	apply(encode(queueverbs.PutQuota{Tenant: "acme", MaxSubmissions: &none, MaxSpecMB: &none}))
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
		j.Tenant, j.Priority, j.User = tenants[random.IntN(3)], uint8(3+random.IntN(3)), []string{"ada", "bob"}[random.IntN(2)]
		j.Shape.GPUs = uint16(random.IntN(3))
		if random.IntN(3) == 0 {
			j.Name = "Tune-" + j.Name[len("train-"):]
		}
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
			OrderBy: []string{
				"", "created_at", "created_at desc", "priority desc", "name", "name desc", "started_at desc", "finished_at desc", "gpu_count desc",
			}[random.IntN(9)], PageSize: int32(1 + random.IntN(30)),
			Search: []string{"", "", "", "tune", "TRAIN-00", "job_1"}[random.IntN(6)], User: []string{"", "", "bob", "me"}[random.IntN(4)],
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
		plain, err := Parse(req, "jobs", "ada")
		require.NoError(t, err)
		var want []ident.Job
		var rows []*work.Job
		byStatus, byQueue := map[string]int32{}, map[string]int32{}
		for j := range v.Jobs(plain.order == byAgeDesc || plain.sort != nil && plain.sort.desc, 0) {
			evaluation := !plain.evaluations || j.Evaluation()
			mine := j.User == map[string]string{"": j.User, "bob": "bob", "me": "ada"}[req.User]
			searched := req.Search == "" || strings.Contains(strings.ToLower(j.Name), strings.ToLower(req.Search)) || strings.HasPrefix(j.ID.String(), req.Search)
			if j.Tenant != tenant || !evaluation || !mine || !searched || !plain.matches(v, j) && plain.filter.All() {
				continue
			}
			if plain.names(j) {
				if s := jobview.Status(v, j).String(); req.Queue == "" || j.Queue == req.Queue {
					byStatus[s]++
				}
				if plain.matches(v, j) {
					byQueue[j.Queue]++
				}
			}
			if (req.Queue == "" || j.Queue == req.Queue) && plain.matches(v, j) {
				rows = append(rows, j)
			}
		}
		facets := plain.Facets(v, tenant)
		require.False(t, facets.GetIsMinimum())
		require.Equal(t, byStatus, facets.GetStatus(), "%v", req)
		require.Equal(t, byQueue, facets.GetQueue(), "%v", req)
		if plain.sort != nil {
			slices.SortStableFunc(rows, func(a, b *work.Job) int {
				switch req.OrderBy {
				case "name":
					return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
				case "name desc":
					return strings.Compare(strings.ToLower(b.Name), strings.ToLower(a.Name))
				case "gpu_count desc":
					return cmp.Compare(b.Shape.GPUs, a.Shape.GPUs)
				case "finished_at desc":
					return cmp.Compare(b.FinishedAt, a.FinishedAt)
				}
				return cmp.Compare(b.StartedAt, a.StartedAt)
			})
		}
		if plain.order == byPriority {
			slices.SortStableFunc(rows, func(a, b *work.Job) int { return cmp.Compare(b.Priority, a.Priority) })
		}
		for _, j := range rows {
			want = append(want, j.ID)
		}

		var got []ident.Job
		for pages := 0; ; pages++ {
			q, err := Parse(req, "jobs", "ada")
			require.NoError(t, err)
			q.scan = scan
			found, err := q.Find(v, tenant)
			require.NoError(t, err)
			cut := false
			require.LessOrEqual(t, len(found.Jobs), int(req.PageSize))
			if found.Exact {
				require.Equal(t, len(want), found.Total, "%v", req)
			} else {
				require.LessOrEqual(t, found.Total, len(want), "%v", req)
			}
			require.True(t, found.Exact || scan < maxScanned)
			if n := len(found.Jobs); n > 1 && random.IntN(4) == 0 {
				q.Cut(&found, n-1)
				cut = true
			}
			for _, j := range found.Jobs {
				got = append(got, j.ID)
			}
			if found.Next == "" {
				break
			}
			require.True(t, len(found.Jobs) == int(req.PageSize) || cut || scan < maxScanned, "a page ends early only because of its bound")
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
		q, err := Parse(req, "jobs", "ada")
		require.NoError(t, err)
		found, err := q.Find(v, "acme")
		require.NoError(t, err)
		return found
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

	q, err := Parse(&v1.ListJobsRequest{Search: "nothing"}, "jobs", "ada")
	require.NoError(t, err)
	require.True(t, q.Facets(v, "acme").GetIsMinimum())
	q, err = Parse(&v1.ListJobsRequest{}, "jobs", "ada")
	require.NoError(t, err)
	require.Equal(t, map[string]int32{"QUEUED": jobs}, q.Facets(v, "acme").GetStatus(), "groups are counted, however many jobs there are")

	// So many are pending that not all are examined: nothing is counted as QUEUED that may be PENDING.
	q.scan = 10
	unconsidered := manyJobs(t, 30, 3, 24, nil).View()
	facets := q.Facets(unconsidered, "acme")
	require.True(t, facets.GetIsMinimum())
	require.Equal(t, map[string]int32{"PENDING": 10}, facets.GetStatus())
	_, err = Parse(&v1.ListJobsRequest{User: Me}, "jobs", "")
	require.ErrorContains(t, err, "your token names no user")
}

// The whole id of a job finds it at once, among any number of jobs; somebody else's finds nothing.
func TestList_findsTheIDOfAJob(t *testing.T) {
	m := manyJobs(t, 30, 3, 0, func(i int, j *jobverbs.NewJob) { j.Tenant = []string{"acme", "umbrella"}[i%2] })
	v := m.View()
	for j := range v.Jobs(false, 0) {
		q, err := Parse(&v1.ListJobsRequest{Search: strings.ToUpper(j.ID.String())}, "jobs", "ada")
		require.NoError(t, err)
		q.scan = 1
		found, err := q.Find(v, "acme")
		require.NoError(t, err)
		if j.Tenant != "acme" {
			require.Empty(t, found.Jobs)
			continue
		}
		require.True(t, found.Exact)
		require.Equal(t, []*work.Job{j}, found.Jobs)
	}
}

// An order that no index has is refused where too many jobs would have to be sorted, and the message says what helps.
func TestList_sortsABoundedNumber(t *testing.T) {
	v := manyJobs(t, 10, 3, 0, nil).View()
	q, err := Parse(&v1.ListJobsRequest{OrderBy: "name"}, "jobs", "ada")
	require.NoError(t, err)
	groups := q.groups(v, "acme")
	groups[0].Jobs = maxSorted + 1
	_, err = q.findSorted(v, groups)
	require.ErrorContains(t, err, "ask for fewer by status or queue")
	_, err = Parse(&v1.ListJobsRequest{OrderBy: "size"}, "jobs", "ada")
	require.ErrorContains(t, err, "gpu_count desc")
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
				{"search", &v1.ListJobsRequest{Search: "000017"}},
				{"label_one", &v1.ListJobsRequest{Label: []string{"run=17"}}},
			} {
				b.Run(list.name, func(b *testing.B) {
					list.req.PageSize = 50
					for b.Loop() {
						q, err := Parse(list.req, "jobs", "ada")
						require.NoError(b, err)
						found, err := q.Find(v, "acme")
						require.NoError(b, err)
						for _, j := range found.Jobs {
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
