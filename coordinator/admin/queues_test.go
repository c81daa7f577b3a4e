package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// A weight that an older version accepted is still shown.
func TestQueueView_showsAWeightOfAnOlderVersion(t *testing.T) {
	require.EqualValues(t, 3, queueView(fsm.New().View(), &work.Queue{Name: "research", Weight: 3}, "t1", false).GetWeight())
}
