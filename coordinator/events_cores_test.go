package coordinator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Watchers hear what happens to Cores, executions and decisions of their tenant, and nothing of those of another one.
func TestCores_eventsForWatchersOfTheirTenant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		zero := uint64(0)
		watch := func(tenant string, topics ...string) v1.EventService_WatchEventsClient {
			ctx, cancel := context.WithCancel(c.ctx(tenant, ""))
			t.Cleanup(cancel)
			stream, err := v1.NewEventServiceClient(c.members[at].conn).WatchEvents(ctx, &v1.WatchEventsRequest{Topics: topics, SinceIndex: &zero})
			require.NoError(t, err)
			return stream
		}
		k := c.core(at, "told", `[{"kind":"checkpoint","id":"a","prompt":"?","options":["yes"]}]`)
		e := c.invoke(at, "told", nil, 0).GetExecutionId()
		c.eventually("people are asked", func() bool { return len(c.checkpoints(at)) == 1 })
		d := c.checkpoints(at)[0].GetId()
		names := map[string]bool{}
		for own := watch("t1", "core", "execution", "decision"); !names["core "+k.GetId()] || !names["execution "+e] || !names["decision "+d]; {
			m, err := own.Recv()
			require.NoError(t, err)
			for _, e := range m.GetEvents() {
				names[e.GetTopic()+" "+e.GetName()] = true
			}
		}
		require.Len(t, names, 3)

		// The other tenant's own Core is the last thing that happens, and the first that it hears of.
		made, err := c.cores(at).CreateCore(c.ctx("t2", ""), &v1.CreateCoreRequest{Name: "theirs"})
		require.NoError(t, err)
		m, err := watch("t2", "core", "execution", "decision").Recv()
		require.NoError(t, err)
		require.Equal(t, made.GetCore().GetId(), m.GetEvents()[0].GetName())
	})
}
