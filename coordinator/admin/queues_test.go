package admin

import (
	"testing"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/stretchr/testify/require"
)

// What an older version took, which did not use it either, is still shown.
func TestQueueView_showsAWeightOfAnOlderVersion(t *testing.T) {
	require.EqualValues(t, 3, queueView(fsm.New().View(), &fsm.Queue{Name: "research", Weight: 3}, "t1").GetWeight())
}
