package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// after applies commands to a new state, an entry each.
func after(t *testing.T, commands ...kernel.Command) *fsm.View {
	t.Helper()
	m := fsm.New()
	for i, c := range commands {
		raw, err := kernel.Encode(level.Newest, c)
		require.NoError(t, err)
		m.Apply(uint64(i+1), kernel.Pack(level.Newest, time.Unix(1_700_000_000+int64(i), 0), [][]byte{raw}))
	}
	return m.View()
}

// The state machine never exceeds a quota, so this test makes an impossible pair of states: the same quota, with jobs
// that were never granted. The check must report it.
func TestReplicas_noticeAGrantBeyondAQuota(t *testing.T) {
	jobs := func(n int) kernel.Command {
		c := jobverbs.SubmitJobs{}
		for range n {
			c.Jobs = append(c.Jobs, jobverbs.NewJob{Tenant: "t", User: "u", Name: "j", Queue: work.DefaultQueue, Spec: []byte("spec"), Shape: work.Shape{Nodes: 1}})
		}
		return c
	}
	quota := func(n int32) kernel.Command { return queueverbs.PutQuota{Tenant: "t", MaxJobs: &n} }
	for name, c := range map[string]struct {
		before, later []kernel.Command
		found         int
	}{
		"within":                    {[]kernel.Command{jobs(1), quota(3)}, []kernel.Command{jobs(2), quota(3), jobs(1)}, 0},
		"beyond":                    {[]kernel.Command{jobs(1), quota(1)}, []kernel.Command{jobs(3), quota(1), jobs(1)}, 1},
		"lowered, which takes none": {[]kernel.Command{jobs(3), quota(1)}, []kernel.Command{jobs(3), quota(1), jobs(1)}, 0},
		"another quota by now":      {[]kernel.Command{jobs(1), quota(1)}, []kernel.Command{jobs(3), jobs(1), quota(1)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Findings{}
			r := NewReplicas(f)
			r.observe("c1", after(t, c.before...), nil)
			r.observe("c1", after(t, c.later...), nil)
			require.Len(t, f.All(), c.found)
			if c.found > 0 {
				require.Contains(t, f.All()[0], "I7: unfinished jobs of tenant t went from 1 to 3")
			}
		})
	}
}
