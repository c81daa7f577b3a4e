package predict

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
)

const minute = int64(time.Minute)

func job(user, name string, gpus int, submitted int64) *work.Job {
	return &work.Job{Tenant: "t", User: user, Name: name, Shape: work.Shape{Nodes: 1, GPUs: uint16(gpus)}, CreatedAt: submitted}
}

func TestRemaining_ofWhatIsUnknown(t *testing.T) {
	var m Model
	require.Equal(t, unheard, m.Remaining(job("u", "", 1, 0), 0))
	require.Equal(t, 90*minute, m.Remaining(job("u", "", 1, 0), 90*minute), "as long again as it has run")
}

func TestRemaining_fromJobsSubmittedTogether(t *testing.T) {
	var m Model
	for i := range int64(50) {
		m.Learn(job("u", "", 1, i*minute), 30*minute)
	}
	for range 50 {
		m.Learn(job("u", "", 1, 1000*minute), 3000*minute)
	}
	m.Learn(job("u", "", 8, 10*minute), 1*minute)
	require.InEpsilon(t, 30*minute, m.Remaining(job("u", "", 1, 10*minute), 0), 0.5)
	require.InEpsilon(t, 3000*minute, m.Remaining(job("u", "", 1, 1001*minute), 0), 0.1)
}

func TestRemaining_theUsersOwnJobsCountMore(t *testing.T) {
	var m Model
	for range 5 {
		m.Learn(job("a", "", 1, 0), 10*minute)
		m.Learn(job("b", "", 1, 0), 1000*minute)
	}
	require.Less(t, m.Remaining(job("a", "", 1, 0), 0), m.Remaining(job("c", "", 1, 0), 0))
	require.Greater(t, m.Remaining(job("b", "", 1, 0), 0), m.Remaining(job("c", "", 1, 0), 0))
}

func TestRemaining_fromTheSameName(t *testing.T) {
	var m Model
	for i := range int64(20) {
		m.Learn(job("u", fmt.Sprintf("nightly-%d", i), 1, i*1440*minute), 600*minute)
		m.Learn(job("u", fmt.Sprintf("smoke-%d", i), 1, i*1440*minute), 2*minute)
	}
	require.InEpsilon(t, 600*minute, m.Remaining(job("u", "nightly-77", 1, 99_999*minute), 0), 0.5)
	require.Less(t, m.Remaining(job("u", "smoke-77", 1, 99_999*minute), 0), 5*minute)
}

func TestRemaining_ofAJobThatHasOutrunMost(t *testing.T) {
	var m Model
	for range 90 {
		m.Learn(job("u", "", 1, 0), 10*minute)
	}
	for range 10 {
		m.Learn(job("u", "", 1, 0), 500*minute)
	}
	require.Less(t, m.Remaining(job("u", "", 1, 0), 0), 30*minute)
	require.InDelta(t, 480*minute, m.Remaining(job("u", "", 1, 0), 20*minute), float64(minute))
}

func TestModel_isBounded(t *testing.T) {
	var m Model
	for i := range 3 * mostNear {
		m.Learn(job("u", fmt.Sprintf("n%dx", i), 1, int64(i)*minute), 10*minute)
	}
	s := m.sizes[1000]
	require.LessOrEqual(t, len(s.near), mostNear)
	require.LessOrEqual(t, len(s.newest), 2*mostNewest)
	require.LessOrEqual(t, len(s.named), mostNames)
}

func TestMedianBeyond(t *testing.T) {
	_, ok := MedianBeyond([]int64{1, 2, 3}, 3)
	require.False(t, ok)
	took, ok := MedianBeyond([]int64{1, 2, 3, 9}, 1)
	require.True(t, ok)
	require.Equal(t, int64(3), took)
}
