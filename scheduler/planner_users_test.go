package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
)

// A queue below another one has room in its guarantee, and its next job does not fit into it. So the more urgent job of
// its sibling comes first, and before the jobs of all other queues: a lane that stands for those of a user must not hide
// that.
func TestPlanner_aGuaranteeBelowAQueue(t *testing.T) {
	s := newState(t)
	s.node("n0", gpus("n0", "H100", 8, 8), nil)
	s.guarantee("org", "", 8)
	s.guarantee("x", "org", 8)
	s.queue("y", "org", 1)
	s.queue("z", "", 1)
	submit := func(queue string, n uint16, priority uint8) ident.Job {
		j := s.of(queue, "t", "u", work.Shape{GPUs: n})
		j.Priority = priority
		return s.submits(j)[0]
	}
	submit("x", 4, 5)
	submit("y", 4, 5)
	planner := scheduler.NewByUser()
	require.Len(t, s.planned(&planner), 2)
	submit("x", 8, 5)
	first, second := submit("y", 1, 9), submit("z", 8, 7)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	require.Equal(t, []ident.Job{first}, s.planned(&planner))
	require.Empty(t, s.planned(&planner))
	s.end(first)
	require.Equal(t, []ident.Job{second}, s.planned(&planner))
}
