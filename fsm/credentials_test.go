package fsm_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestCredentials_areGoneWithTheEndOfTheJob(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	sealed := func(retries uint16) ident.Job {
		n := oneGPU()
		n.Credentials = []byte("sealed")
		n.Retry = work.RetryPolicy{Max: retries, On: work.RetryAll}
		return w.submit(n)
	}
	failed := func(r *jobverbs.TaskReport) { r.ErrorType = v1.ErrorType_EXIT_NONZERO }
	id := sealed(1)
	w.place(id, "n1")
	w.report(id, 0, jobverbs.ReportEnded, failed)
	require.Equal(t, queued, w.job(id).State)
	require.Equal(t, "sealed", string(w.job(id).Credentials), "the next attempt needs them")
	w.place(id, "n1")
	w.report(id, 0, jobverbs.ReportEnded, failed)
	require.Equal(t, failedJob, w.job(id).State)
	require.Nil(t, w.job(id).Credentials)
	require.NotContains(t, string(snapshotBytes(t, w.m)), "sealed")

	// A retry brings new ones, or none.
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Credentials: []byte("again")})
	require.Equal(t, "again", string(w.job(id).Credentials))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel, Credentials: []byte("never")})
	require.Nil(t, w.job(id).Credentials)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
	require.Nil(t, w.job(id).Credentials)

	// A resume replaces those that may have expired, and else leaves them.
	id = sealed(0)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause}, jobverbs.ControlJob{Job: id, Action: work.ActionResume})
	require.Equal(t, "sealed", string(w.job(id).Credentials))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause}, jobverbs.ControlJob{Job: id, Action: work.ActionResume, Credentials: []byte("again")})
	require.Equal(t, "again", string(w.job(id).Credentials))

	// Also when it ends because of another one.
	n := oneGPU()
	n.Credentials, n.Dependencies = []byte("sealed"), []work.Dependency{{Job: id, When: work.AfterOK}}
	waiting := w.submit(n)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	require.Equal(t, canceled, w.job(waiting).State)
	require.Nil(t, w.job(waiting).Credentials)

	again := fsm.New()
	w.replay(again)
	sameState(t, w.m, again)
	require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	sameState(t, w.m, again)
}
