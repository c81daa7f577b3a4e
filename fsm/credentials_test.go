package fsm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCredentials_areGoneWithTheEndOfTheJob(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	sealed := func(retries uint16) JobID {
		n := oneGPU()
		n.Credentials = []byte("sealed")
		n.Retry = RetryPolicy{Max: retries, On: RetryAll}
		return w.submit(n)
	}
	failed := func(r *TaskReport) { r.ErrorType = v1.ErrorType_EXIT_NONZERO }
	id := sealed(1)
	w.place(id, "n1")
	w.report(id, 0, ReportEnded, failed)
	require.Equal(t, queued, w.job(id).State)
	require.Equal(t, "sealed", string(w.job(id).Credentials), "the next attempt needs them")
	w.place(id, "n1")
	w.report(id, 0, ReportEnded, failed)
	require.Equal(t, failedJob, w.job(id).State)
	require.Nil(t, w.job(id).Credentials)
	require.NotContains(t, string(snapshotBytes(t, w.m)), "sealed")

	// A retry brings new ones, or none.
	w.do(ControlJob{Job: id, Action: ActionRetry, Credentials: []byte("anew")})
	require.Equal(t, "anew", string(w.job(id).Credentials))
	w.do(ControlJob{Job: id, Action: ActionCancel, Credentials: []byte("never")})
	require.Nil(t, w.job(id).Credentials)
	w.do(ControlJob{Job: id, Action: ActionRetry})
	require.Nil(t, w.job(id).Credentials)

	// A resume replaces those that may have expired, and else leaves them.
	id = sealed(0)
	w.do(ControlJob{Job: id, Action: ActionPause}, ControlJob{Job: id, Action: ActionResume})
	require.Equal(t, "sealed", string(w.job(id).Credentials))
	w.do(ControlJob{Job: id, Action: ActionPause}, ControlJob{Job: id, Action: ActionResume, Credentials: []byte("anew")})
	require.Equal(t, "anew", string(w.job(id).Credentials))

	// Also when it ends because of another one.
	n := oneGPU()
	n.Credentials, n.Dependencies = []byte("sealed"), []Dependency{{Job: id, When: AfterOK}}
	waiting := w.submit(n)
	w.do(ControlJob{Job: id, Action: ActionCancel})
	require.Equal(t, canceled, w.job(waiting).State)
	require.Nil(t, w.job(waiting).Credentials)

	again := New()
	again.ApplyBatch(w.log)
	sameState(t, w.m, again)
	require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	sameState(t, w.m, again)
}

func TestCredentials_jobsWithoutAreWrittenAsBefore(t *testing.T) {
	plain := SubmitJobs{Jobs: []NewJob{oneGPU()}}
	with := SubmitJobs{Jobs: []NewJob{oneGPU(), oneGPU()}}
	with.Jobs[1].Credentials = []byte("sealed")
	require.Equal(t, firstSubmitVersion, plain.appendBody(nil)[0])
	body := with.appendBody(nil)
	require.Equal(t, submitWithSecret, body[0])
	var back SubmitJobs
	require.NoError(t, back.parseBody(body))
	require.Nil(t, back.Jobs[0].Credentials)
	require.Equal(t, "sealed", string(back.Jobs[1].Credentials))
}
