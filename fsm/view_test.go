package fsm_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

func ids(jobs []*work.Job) []ident.Job {
	out := make([]ident.Job, len(jobs))
	for i, j := range jobs {
		out[i] = j.ID
	}
	return out
}

func TestView_jobsByIDFromEitherEnd(t *testing.T) {
	w := newWorld(t)
	var all, acme []ident.Job
	for i := range 20 {
		r := w.trySubmit(func(n *jobverbs.NewJob) {
			if i%3 == 0 {
				n.Tenant = "umbrella"
			}
		})
		all = append(all, r.Job)
		if i%3 != 0 {
			acme = append(acme, r.Job)
		}
	}
	v := w.m.View()
	backwards := func(in []ident.Job) []ident.Job {
		out := slices.Clone(in)
		slices.Reverse(out)
		return out
	}
	require.Equal(t, all, ids(slices.Collect(v.Jobs(false, 0))))
	require.Equal(t, backwards(all), ids(slices.Collect(v.Jobs(true, 0))))
	require.Equal(t, all[7:], ids(slices.Collect(v.Jobs(false, all[7]))))
	require.Equal(t, backwards(all[:8]), ids(slices.Collect(v.Jobs(true, all[7]))))
	of := func(tenant string, desc bool, from ident.Job) []ident.Job {
		return ids(slices.Collect(v.JobsOfGroups(slices.Collect(v.JobGroups(tenant)), desc, from)))
	}
	require.Equal(t, acme, of("acme", false, 0))
	require.Equal(t, backwards(acme), of("acme", true, 0))
	require.Equal(t, acme[3:], of("acme", false, acme[3]))
	require.Equal(t, backwards(acme[:4]), of("acme", true, acme[3]))
	require.Empty(t, of("nobody", false, 0))
}

// TestView_queueOrder compares places in the queue with a sort of all jobs, and classes read in pieces with whole ones.
func TestView_queueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "fast"}})
		var c jobverbs.SubmitJobs
		for range rapid.IntRange(0, 300).Draw(t, "jobs") {
			n := oneGPU()
			n.Queue = rapid.SampledFrom([]string{"default", "fast"}).Draw(t, "queue")
			n.Priority = uint8(rapid.IntRange(0, 10).Draw(t, "priority"))
			n.Shape.GPUs = uint16(rapid.IntRange(0, 3).Draw(t, "gpus"))
			n.User = rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")
			c.Jobs = append(c.Jobs, n)
		}
		w.do(c)
		v := w.m.View()
		for _, q := range []string{"default", "fast", "nope"} {
			want := inQueue(v, q)
			require.Equal(t, len(want), v.QueueCounts(q).Of(queued))
			for i, j := range want {
				if i%17 == 0 {
					require.Equal(t, i, v.Ahead(j))
				}
			}
		}
		read := 0
		for class := range v.Classes() {
			var inClass []*work.Job
			for lane := range v.Lanes(class) {
				whole := slices.Collect(v.LaneJobs(lane))
				require.NotEmpty(t, whole)
				inClass = append(inClass, whole...)
				var pieces []*work.Job
				var last *work.Job
				for {
					part := v.LaneJobsAfter(lane, last, make([]*work.Job, 7))
					if len(part) == 0 {
						break
					}
					pieces = append(pieces, part...)
					last = part[len(part)-1]
				}
				require.Equal(t, ids(whole), ids(pieces))
				for i, j := range whole {
					require.Equal(t, lane, work.LaneKey{Class: v.ClassOf(j), Tenant: j.Tenant, User: j.User})
					require.True(t, i == 0 || whole[i-1].Priority > j.Priority || whole[i-1].Priority == j.Priority && whole[i-1].ID < j.ID)
				}
			}
			require.Equal(t, ids(inClass), ids(slices.Collect(v.ClassJobs(class))))
			read += len(inClass)
		}
		require.Len(t, c.Jobs, read)
	})
}

func TestView_doesNotChange(t *testing.T) {
	w := story(t)
	v := w.m.View()
	hash, counts, use := v.Hash(), v.Counts(), v.Use("n1")
	jobs := slices.Collect(v.Jobs(false, 0))
	for range 50 {
		w.submit(oneGPU())
	}
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget})
	require.Equal(t, hash, v.Hash())
	require.Equal(t, counts, v.Counts())
	require.Equal(t, use, v.Use("n1"))
	require.Equal(t, jobs, slices.Collect(v.Jobs(false, 0)))
	require.Empty(t, fsm.Check(v))
}

// TestView_readWhileApplying is for the race detector: readers walk over views while entries are applied and
// snapshots are written.
func TestView_readWhileApplying(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := w.m.View()
				if found := fsm.Check(v); len(found) != 0 {
					t.Error(found)
					return
				}
				if _, err := w.m.Snapshot().WriteTo(discard{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 60 {
		id := w.submit(oneGPU())
		w.place(id, "n1")
		w.run(id)
		w.report(id, 0, jobverbs.ReportEnded, exit(0))
		w.later(time.Second)
	}
	close(stop)
	readers.Wait()
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestView_countsAndGPUs(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(gang(1))
	share := oneGPU()
	share.Shape = work.Shape{FractionMilli: 250}
	other := w.submit(share)
	require.Equal(t, 2, w.m.View().Counts().Of(queued))
	w.place(id, "n1")
	w.place(other, "n1")
	v := w.m.View()
	require.Equal(t, 2, v.QueueCounts("default").Of(allocated))
	require.Equal(t, 2, v.Counts().Total())
	require.Equal(t, 2250, v.QueueGPUs("default"))
	tenant := oneGPU().Tenant
	require.Equal(t, v.Counts(), v.CountsOf(tenant))
	require.Equal(t, v.QueueCounts("default"), v.QueueCountsOf(tenant, "default"))
	require.Equal(t, 2250, v.QueueGPUsOf(tenant, "default"))
	for _, other := range []string{"", tenant + "x", tenant[:len(tenant)-1]} {
		require.Zero(t, v.CountsOf(other))
		require.Zero(t, v.QueueCountsOf(other, "default"))
		require.Zero(t, v.QueueGPUsOf(other, "default"))
	}
	require.Equal(t, []ident.Job{id, other}, ids(slices.Collect(v.ActiveJobs())))
	require.Len(t, slices.Collect(v.LeasesOn("n1")), 2)
	require.Empty(t, slices.Collect(v.LeasesOn("n")))
	require.Equal(t, []string{"H100"}, v.GPUTypes())
}

func TestSelector_isCanonical(t *testing.T) {
	s := work.CanonicalSelector(map[string]string{"zone": "a", "arch": "x"})
	require.Equal(t, "arch=x,zone=a", s)
	require.True(t, work.MatchesSelector(map[string]string{"zone": "a", "arch": "x", "more": ""}, s))
	require.False(t, work.MatchesSelector(map[string]string{"zone": "a"}, s))
	require.False(t, work.MatchesSelector(map[string]string{"zone": "a", "arch": "y"}, s))
	require.True(t, work.MatchesSelector(nil, ""))
	require.False(t, work.MatchesSelector(nil, "a="), "absent is not empty")
}
