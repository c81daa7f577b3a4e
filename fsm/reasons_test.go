package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestReasons_nobodyCanForgeACode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	id := w.submit(oneGPU())
	forged := string(reason.New(reason.NodeForgotten, "n1"))
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel, Reason: forged, Actor: &access.Actor{User: "mallory"}})
	require.Zero(t, w.job(id).Reason.Code())
	for r := range w.m.View().AuditRecords(0) {
		require.Zero(t, r.Message.Code())
	}
}

// TestReasons_withoutParametersAreShared holds that a million held jobs do not have a million copies of why.
func TestReasons_withoutParametersAreShared(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = reason.New(reason.WaitsForJobs) }))
}
