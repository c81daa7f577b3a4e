package output

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A remark about a removed part of a log has no time of its own. Readers must see one.
func TestInOrder_allLinesHaveATime(t *testing.T) {
	line := func(rank uint16, at int64) logLine { return logLine{rank, &v1.TaskLogEntry{UnixNanos: at}} }
	lines := []logLine{line(0, 0), line(1, 7), line(0, 5), line(0, 6), line(1, 0)}
	remark, last := lines[0].entry, lines[4].entry
	inOrder(lines, 0, map[uint16]int64{})
	require.Equal(t, int64(5), remark.UnixNanos)
	require.Same(t, remark, lines[0].entry)
	require.Greater(t, last.UnixNanos, int64(7))
}
