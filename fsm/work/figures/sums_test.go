package figures

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// state is two jobs in a queue that is a part of another one. The first has a lease on two GPUs.
type state struct {
	Sums
	jobs   []*work.Job
	leases []*work.Lease
}

func counted() *state {
	s := &state{Sums: New(), jobs: []*work.Job{
		{ID: 1, Tenant: "acme", Queue: "part", State: v1.JobState_RUNNING, Spec: []byte("abc")},
		{ID: 2, Tenant: "other", Queue: "part", State: v1.JobState_QUEUED, Held: work.HoldNotBefore},
	}, leases: []*work.Lease{{Job: 1, Node: "n1", GPUs: 3}}}
	for _, j := range s.jobs {
		Count(&s.Sums, j, 1)
	}
	Hold(&s.Sums, s.jobs[0], s.leases[0].GPUMilli(), s.Lineage("part"))
	Flush(&s.Sums)
	return s
}

func (s *state) Jobs(bool, ident.Job) iter.Seq[*work.Job] { return slices.Values(s.jobs) }

func (s *state) Leases() iter.Seq[*work.Lease] { return slices.Values(s.leases) }

func (s *state) Job(id ident.Job) (*work.Job, bool) { return s.jobs[id-1], true }

func (s *state) Lineage(string) iter.Seq[*work.Queue] {
	return slices.Values([]*work.Queue{{Name: "part", Parent: "whole"}, {Name: "whole"}})
}

// check says what Check finds.
func (s *state) check() string {
	var found []string
	s.CheckFigures(s, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
	return strings.Join(found, "\n")
}

func TestSums_countQueuesAndTenants(t *testing.T) {
	s := counted()
	require.Empty(t, s.check())
	v := ViewOf(&s.Sums)
	require.Equal(t, 2, v.QueueCounts("part").Total())
	require.Equal(t, 1, v.QueueHeld("part"))
	require.Equal(t, 2000, v.QueueGPUs("part"))
	require.Zero(t, v.QueueGPUs("whole"))
	require.Equal(t, 2000, v.QueueTreeGPUs("whole"))
	require.Equal(t, work.Usage{GPUMilli: 2000, Running: 1, Unfinished: 1, Submissions: 1, SpecBytes: 3}, v.Usage("acme"))
	require.Equal(t, v.Usage("acme"), UsageNow(&s.Sums, "acme"))
	require.Equal(t, 1, v.HeldOf("other"))
	require.Zero(t, v.QueueGPUsOf("other", "part"))
	old := Freeze(&s.Sums)
	Hold(&s.Sums, s.jobs[0], -2000, s.Lineage("part"))
	require.Zero(t, TreeNow(&s.Sums, "whole"))
	require.Equal(t, 2000, v.QueueTreeGPUs("whole"), "what is read is as of the last Flush")
	Flush(&s.Sums)
	require.Zero(t, v.QueueTreeGPUs("whole"))
	require.Equal(t, 2000, ViewOf(&old).QueueTreeGPUs("whole"), "a frozen copy stays")
}

func TestCheck_canFail(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(s *state)
		says    string
	}{
		"wrong figures of a queue":       {func(s *state) { s.queues.Put(queue{"part", &figures{}}) }, `the figures of queue "part"`},
		"a tree of queues counted wrong": {func(s *state) { s.queues.Put(queue{"whole", &figures{treeMilli: 1}}) }, `the figures of queue "whole"`},
		"figures of a queue uncounted":   {func(s *state) { s.queues.Delete(queue{name: "part"}) }, "figures of 1 queues instead of 2"},
		"wrong figures of a tenant":      {func(s *state) { s.shares.Put(share{part{"acme", "part"}, &figures{gpuMilli: 1}}) }, "I11: the figures of tenant"},
		"specs of a tenant uncounted":    {func(s *state) { s.jobs[0].Spec = nil }, "I11: the figures of tenant"},
		"a tenant's part uncounted":      {func(s *state) { s.shares.Delete(share{of: part{"acme", "part"}}) }, "parts of queues that tenants have are not counted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := counted()
			require.Empty(t, s.check())
			c.breakIt(s)
			require.Contains(t, s.check(), c.says)
		})
	}
}
