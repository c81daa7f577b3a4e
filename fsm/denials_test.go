package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

func TestDenials_areRecordedBesideEverythingElse(t *testing.T) {
	w := newWorld(t)
	w.do(queueverbs.DeleteQueue{Name: "nope", Actor: &access.Actor{Tenant: "ops", User: "root"}})
	got := do[access.DenialsResult](w, access.RecordDenials{Denials: []access.Denial{
		{Tenant: "acme", User: "ann", Token: 7, Code: kernel.CodePermissionDenied, Reason: "AUTHZ_PERMISSION_DENIED", What: "PUT /queues/{name}", From: "10.0.0.9", Count: 1203, Lasted: int64(59 * time.Second), Request: "req_1", By: "gateway"},
		{Code: kernel.CodeUnauthenticated, Reason: "AUTH_TOKEN_INVALID", What: "GET /jobs", From: "10.0.0.8", Count: 1},
		{Code: kernel.CodeUnauthenticated, Reason: "AUTH_TOKEN_MISSING", Count: 2, Lasted: 5},
		{User: "a user of no tenant", Code: kernel.CodeUnauthenticated, Reason: "r", Count: 1},
		{Tenant: "acme", Code: kernel.CodeNotFound, Count: 1}, // That is no denial.
		{Tenant: "acme", Code: kernel.CodePermissionDenied},   // Nothing happened.
	}})
	require.Equal(t, 4, got.Recorded)
	require.Equal(t, []string{
		`ops/root queue.delete nope 5: there is no queue "nope"`,
		"acme/ann access.deny PUT /queues/{name} 7: AUTHZ_PERMISSION_DENIED, 1203 times in 59s, by gateway, from 10.0.0.9",
		"/ access.deny GET /jobs 16: AUTH_TOKEN_INVALID, once, from 10.0.0.8",
		"/ access.deny  16: AUTH_TOKEN_MISSING, 2 times within a second",
		"/ access.deny  16: r, once",
	}, told(w.m.View()))
	for r := range w.m.View().AuditRecords(access.AuditAccessDeny) {
		require.Equal(t, access.AuditAccessDeny, r.Action)
	}
	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)
}

func TestDenials_areBounded(t *testing.T) {
	w := newWorld(t)
	many := slices.Repeat([]access.Denial{{Tenant: strings.Repeat("t", 999), Reason: strings.Repeat("r", 999), What: strings.Repeat("w", 999), Code: kernel.CodePermissionDenied, Count: 1}}, access.MaxDenials+9)
	require.Equal(t, access.MaxDenials, do[access.DenialsResult](w, access.RecordDenials{Denials: many}).Recorded)
	for r := range w.m.View().AuditRecords(0) {
		require.Len(t, r.Tenant, access.MaxAuditText)
		require.Equal(t, reason.Denied, r.Message.Code(), "what is cut is a text in it")
		require.LessOrEqual(t, len(r.Message), access.MaxAuditText)
		require.Len(t, r.Object, access.MaxAuditText)
	}
}

// A flood of denials takes nothing away but older denials; and a bound that is lowered counts at once, for older views too.
func TestConfigure_boundsEachKindOfAuditRecords(t *testing.T) {
	w := newWorld(t)
	w.do(queueverbs.DeleteQueue{Name: "nope", Actor: &access.Actor{Tenant: "ops"}}, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU()}, Actor: &access.Actor{}})
	deny := func(n int) {
		w.do(access.RecordDenials{Denials: slices.Repeat([]access.Denial{{Code: kernel.CodeUnauthenticated, Reason: "r", Count: 1}}, n)})
	}
	deny(200)
	early := w.m.View()
	w.do(clusterverbs.Configure{KeepAudit: 10})
	v := w.m.View()
	require.Empty(t, fsm.Check(v))
	require.Empty(t, fsm.Check(early), "a view keeps what it had")
	require.Len(t, told(early), 202)
	require.Len(t, told(v), 12)
	require.Zero(t, v.AuditDroppedBefore(nodeverbs.AuditNodeDrain))
	require.Zero(t, v.AuditDroppedBefore(jobverbs.AuditJobSubmit))
	require.NotZero(t, v.AuditDroppedBefore(access.AuditAccessDeny))
	deny(50)
	v = w.m.View()
	require.Len(t, told(v), 12)
	require.Equal(t, "ops/ queue.delete nope 5: there is no queue \"nope\"", told(v)[0])
	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)
	w.do(clusterverbs.Configure{KeepAudit: 100})
	deny(200)
	require.Len(t, told(w.m.View()), 102)
	w.do(clusterverbs.Configure{})
	_, records := w.m.View().Configured()
	require.Zero(t, records)
	deny(150)
	require.Len(t, told(w.m.View()), 252, "as many are kept as nobody configured")
	require.Empty(t, fsm.Check(w.m.View()))
}
