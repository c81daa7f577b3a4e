package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// A rank that has ended while others of its gang go on stays as it ended, whatever its node says later.
func TestReport_theEndOfATaskIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(gang(2))
	w.place(id, "n1", "n2")
	w.run(id)
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	before := w.job(id)
	require.Equal(t, running, before.State)
	for name, say := range map[string]func() jobverbs.ReportResult{
		"the same end again": func() jobverbs.ReportResult { return w.report(id, 0, jobverbs.ReportEnded, exit(0)) },
		"another end": func() jobverbs.ReportResult {
			return w.report(id, 0, jobverbs.ReportEnded, exit(1), failed(v1.ErrorType_OOM, "out of memory"))
		},
		"that it starts": func() jobverbs.ReportResult { return w.report(id, 0, jobverbs.ReportStarting) },
		"that it runs":   func() jobverbs.ReportResult { return w.report(id, 0, jobverbs.ReportRunning) },
	} {
		require.Equal(t, jobverbs.ReportResult{Duplicate: 1}, say(), name)
		require.Same(t, before, w.job(id), name)
	}
	w.report(id, 1, jobverbs.ReportEnded, exit(0))
	require.Equal(t, succeeded, w.job(id).State)
}
