package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestOpenTunnel_isInTheAuditLog(t *testing.T) {
	w := cluster(t)
	id := w.submit(oneGPU())
	before := w.job(id)
	open := func(tenant string) *kernel.Refusal {
		c := jobverbs.OpenTunnel{Tenant: tenant, Job: id, What: "rank 0: bash -l", Actor: &access.Actor{Tenant: tenant, User: "ann"}}
		return do[jobverbs.TunnelResult](w, c).Refusal
	}
	require.Nil(t, open(before.Tenant))
	require.Equal(t, before, w.job(id), "it changes nothing")
	require.Equal(t, kernel.CodeNotFound, open("evil").Code)
	var seen []access.AuditRecord
	for r := range w.m.View().AuditRecords(jobverbs.AuditTunnelOpen) {
		if r.Action == jobverbs.AuditTunnelOpen {
			seen = append(seen, *r)
		}
	}
	require.Len(t, seen, 2)
	require.Equal(t, "evil", seen[0].Tenant)
	require.Equal(t, kernel.CodeNotFound, seen[0].Code)
	require.Equal(t, "ann", seen[1].User)
	require.Equal(t, id, seen[1].Job)
	require.Contains(t, string(seen[1].Message), "bash -l")
	require.Zero(t, seen[1].Code)
}

func TestOpenTunnel_waitsForItsLevel(t *testing.T) {
	_, err := jobverbs.OpenTunnel{}.AtLevel(level.Released)
	require.Error(t, err)
}
