package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
)

// after applies commands to a new state, an entry each.
func after(t *testing.T, commands ...fsm.Command) *fsm.View {
	t.Helper()
	m := fsm.New()
	for i, c := range commands {
		raw, err := fsm.Encode(c)
		require.NoError(t, err)
		m.Apply(uint64(i+1), fsm.Pack(time.Unix(1_700_000_000+int64(i), 0), [][]byte{raw}))
	}
	return m.View()
}

// The state refuses what a quota does not allow; so that the check is seen to notice, one state follows another here that
// it cannot follow: the same quota, and jobs that were never granted.
func TestReplicas_noticeAGrantBeyondAQuota(t *testing.T) {
	jobs := func(n int) fsm.Command {
		c := fsm.SubmitJobs{}
		for range n {
			c.Jobs = append(c.Jobs, fsm.NewJob{Tenant: "t", User: "u", Name: "j", Queue: fsm.DefaultQueue, Spec: []byte("spec"), Shape: fsm.Shape{Nodes: 1}})
		}
		return c
	}
	quota := func(n int32) fsm.Command { return fsm.PutQuota{Tenant: "t", MaxJobs: &n} }
	for name, c := range map[string]struct {
		before, later []fsm.Command
		found         int
	}{
		"within":                    {[]fsm.Command{jobs(1), quota(3)}, []fsm.Command{jobs(2), quota(3), jobs(1)}, 0},
		"beyond":                    {[]fsm.Command{jobs(1), quota(1)}, []fsm.Command{jobs(3), quota(1), jobs(1)}, 1},
		"lowered, which takes none": {[]fsm.Command{jobs(3), quota(1)}, []fsm.Command{jobs(3), quota(1), jobs(1)}, 0},
		"another quota by now":      {[]fsm.Command{jobs(1), quota(1)}, []fsm.Command{jobs(3), jobs(1), quota(1)}, 0},
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
