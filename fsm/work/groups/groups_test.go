package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

func queued(id ident.Job, tenant string) *work.Job {
	return &work.Job{ID: id, Tenant: tenant, Queue: "default", State: v1.JobState_QUEUED}
}

// listed is an index of some jobs, as a view has it.
func listed(jobs ...*work.Job) *Index {
	x := New()
	for _, j := range jobs {
		x.Add(j.ID, j.Group())
	}
	x.Freeze()
	return &x
}

func TestIndex_listsTheJobsOfGroupsByAge(t *testing.T) {
	jobs := []*work.Job{queued(1, "acme"), queued(2, "acme"), queued(3, "other"), queued(4, "acme")}
	jobs[1].Priority = 5
	x := listed(jobs...)
	groups := slices.Collect(x.Of("acme"))
	require.Len(t, groups, 2)
	require.Equal(t, []ident.Job{1, 2, 4}, slices.Collect(x.Jobs(groups, false, 0)))
	require.Equal(t, []ident.Job{2, 1}, slices.Collect(x.Jobs(groups, true, 2)))
	old := x.Freeze()
	x.Remove(4, jobs[3].Group())
	x.Freeze()
	require.Equal(t, []ident.Job{1, 2}, slices.Collect(x.Jobs(slices.Collect(x.Of("acme")), false, 0)))
	require.Equal(t, []ident.Job{1, 2, 4}, slices.Collect(old.Jobs(slices.Collect(old.Of("acme")), false, 0)), "a frozen index stays")
}

func TestCheck_canFail(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(x *Index)
		says    string
	}{
		"a group that counts wrong": {func(x *Index) {
			for g := range x.groups.All() {
				g.Jobs++
				x.groups.Put(g)
				return
			}
		}, "I11: the group"},
		"a group uncounted": {func(x *Index) {
			for g := range x.groups.All() {
				x.groups.Delete(g)
				return
			}
		}, "groups of jobs are not counted"},
		"a job in two groups":           {func(x *Index) { x.members.Put(member{1 << 40, 1}) }, "the index of groups has"},
		"a job unlisted for its tenant": {func(x *Index) { x.members.Delete(member{1, 1}) }, "I11: " + ident.Job(1).String() + " is not listed"},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := []*work.Job{queued(1, "acme"), queued(2, "other")}
			x := listed(jobs...)
			var found []string
			report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
			x.Check(slices.Values(jobs), report)
			require.Empty(t, found)
			c.breakIt(x)
			x.Check(slices.Values(jobs), report)
			require.Contains(t, strings.Join(found, "\n"), c.says)
		})
	}
}
