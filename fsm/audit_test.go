package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (w *world) image() *bytes.Reader { return bytes.NewReader(snapshotBytes(w.t, w.m)) }

// told is the audit log, oldest first: "tenant/user action object outcome: message".
func told(v *View) []string {
	var out []string
	for r := range v.AuditRecords(0) {
		object := r.Object
		if r.Job != 0 {
			object = "a job"
		}
		line := fmt.Sprintf("%s/%s %s %s %d", r.Tenant, r.User, r.Action, object, r.Code)
		if r.Message != "" {
			line += ": " + r.Message
		}
		out = append([]string{line}, out...)
	}
	return out
}

func TestAudit_recordsWhatPeopleDid(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	who := &Actor{Tenant: "ops", User: "root", Token: 5, Request: "req-7"}
	w.submit(oneGPU()) // Nobody's doing.
	res := do[SubmitJobsResult](w, SubmitJobs{Jobs: []NewJob{oneGPU(), {Tenant: "acme", Name: "bad", Priority: 99, Shape: Shape{GPUs: 1}}}, Actor: &Actor{Token: 8}})
	id := res.Results[0].Job
	w.do(
		ControlJob{Job: id, Action: ActionPause, Actor: who}, ControlJob{Job: id, Action: ActionResume, Actor: who},
		ControlJob{Job: id, Action: ActionCancel, Reason: "enough", Actor: who}, ControlJob{Job: id, Action: ActionRetry, Actor: who},
		ControlJob{Job: 77, Action: ActionCancel, Actor: who},
		SetNode{ID: "n1", Action: NodeDrain, Force: true, Reason: "fans", Actor: who}, SetNode{ID: "n1", Action: NodeEnable, Actor: who},
		SetNode{ID: "n1", Action: NodeUnreachable, Actor: who}, SetNode{ID: "n9", Action: NodeForget, Actor: who},
		PutQueue{Queue: Queue{Name: "fast", MaxGPUs: 4}, Actor: who}, DeleteQueue{Name: "fast", Actor: who},
		PutToken{Digest: digestOf(1), Tenant: "acme", User: "ann", Name: "ci", Permissions: []string{"p"}, Actor: who},
		RevokeToken{Tenant: "acme", ID: 1, Actor: who},
		PutQuota{Tenant: "acme", MaxGPUs: limit(3), Actor: who}, DeleteQuota{Tenant: "acme", Actor: who},
		PutCoordinator{Coordinator: Coordinator{ID: "c1", RaftAddr: "a:1"}, Actor: who}, DeleteCoordinator{ID: "c1", Actor: who},
		DeleteCheckpoint{Tenant: "acme", ID: 9, Actor: who},
	)
	var token TokenID
	for k := range w.m.View().TokensOf("acme") {
		token = k.ID
	}
	require.Equal(t, []string{
		"acme/ada job.submit a job 0",
		"acme/ job.submit bad 3: the priority is 0 to 10, not 99",
		"ops/root job.pause a job 0", "ops/root job.resume a job 0", "ops/root job.cancel a job 0: enough", "ops/root job.retry a job 0",
		"ops/root job.cancel a job 5: there is no job " + JobID(77).String(),
		"ops/root node.drain n1 0: force fans", "ops/root node.enable n1 0", `ops/root node.forget n9 5: there is no node "n9"`,
		"ops/root queue.put fast 0: weight 1, max_gpus 4", "ops/root queue.delete fast 0",
		"ops/root token.create " + token.String() + " 0: for ann: p",
		"ops/root token.revoke " + TokenID(1).String() + " 5: there is no token " + TokenID(1).String(),
		"ops/root quota.put acme 0: max_gpus 3", "ops/root quota.delete acme 0",
		"ops/root coordinator.join c1 0: a:1", "ops/root coordinator.remove c1 0",
		"ops/root checkpoint.delete " + CheckpointID(9).String() + " 5: there is no checkpoint " + CheckpointID(9).String(),
	}, told(w.m.View()))
	for r := range w.m.View().AuditRecords(AuditJobSubmit) {
		require.True(t, r.Action.kind() == auditJobs)
		if r.Action == AuditJobSubmit {
			require.Equal(t, TokenID(8), r.Token)
		}
	}
	restored := New()
	require.NoError(t, restored.Restore(w.image()))
	require.Equal(t, told(w.m.View()), told(restored.View()))
	sameState(t, w.m, restored)
}

// A request that is repeated because its answer was lost did one thing, and leaves one record.
func TestAudit_repeatsAreNotRecorded(t *testing.T) {
	w := newWorld(t)
	n := oneGPU()
	n.Key, n.Fingerprint = "k", 1
	var id JobID
	for range 2 {
		id = do[SubmitJobsResult](w, SubmitJobs{Jobs: []NewJob{n}, Actor: &Actor{}}).Results[0].Job
	}
	for range 2 {
		w.do(ControlJob{Job: id, Action: ActionCancel, Key: "c", Fingerprint: 1, Actor: &Actor{}})
	}
	require.Equal(t, []string{"acme/ada job.submit a job 0", "/ job.cancel a job 0"}, told(w.m.View()))
}

func TestAudit_longTextsAreCut(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.do(SetNode{ID: "n1", Action: NodeDrain, Reason: strings.Repeat("ä", 300), Actor: &Actor{Tenant: strings.Repeat("t", 999), Request: strings.Repeat("r", 999)}})
	for r := range w.m.View().AuditRecords(0) {
		require.Equal(t, strings.Repeat("ä", 128), r.Message)
		require.Len(t, r.Tenant, maxAuditText)
		require.Len(t, r.Request, maxAuditText)
	}
}

// TestAudit_isBounded fills the log of jobs past its bound: the oldest go, that is told, older views keep what they had,
// and what is not about jobs stays.
func TestAudit_isBounded(t *testing.T) {
	w := newWorld(t)
	w.do(DeleteQueue{Name: "nope", Actor: &Actor{Tenant: "ops"}})
	submit := func(n int) {
		c := SubmitJobs{Actor: &Actor{Tenant: "acme", User: "ada"}}
		for range n {
			c.Jobs = append(c.Jobs, NewJob{Tenant: "acme", Priority: 99}) // Refused: no job is needed to be recorded.
		}
		w.index++
		w.m.Apply(w.index, w.entry(c))
	}
	submit(1000)
	early := w.m.View()
	for range DefaultKeepAudit / 1000 {
		require.Zero(t, w.m.View().AuditDroppedBefore(0))
		submit(1000)
	}
	v := w.m.View()
	require.Empty(t, Check(v))
	require.Empty(t, Check(early))
	require.Equal(t, DefaultKeepAudit, v.audit.logs[auditJobs].len())
	require.Equal(t, 1000, early.audit.logs[auditJobs].len())
	require.EqualValues(t, 3, v.AuditDroppedBefore(0), "the records of index 2 are gone")
	require.EqualValues(t, 3, v.AuditDroppedBefore(AuditJobCancel))
	require.Zero(t, v.AuditDroppedBefore(AuditNodeDrain))
	n := 0
	var last *AuditRecord
	for r := range v.AuditRecords(0) {
		n, last = n+1, r
	}
	require.Equal(t, DefaultKeepAudit+1, n)
	require.Equal(t, AuditQueueDelete, last.Action)
	restored := New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)
	require.EqualValues(t, 3, restored.View().AuditDroppedBefore(0))
	submit(1)
	w.later(time.Second)
	require.Empty(t, Check(w.m.View()))
}

func TestAuditActions_areReadByNameAndByWhatTheyAreAbout(t *testing.T) {
	for _, name := range AuditActions() {
		found := ParseAuditActions(name)
		require.Len(t, found, 1, name)
		require.Equal(t, name, found[0].String())
	}
	require.Equal(t, []AuditAction{AuditNodeDrain, AuditNodeEnable, AuditNodeForget}, ParseAuditActions("node"))
	require.Empty(t, ParseAuditActions("nod"))
	require.Empty(t, ParseAuditActions(""))
	require.Equal(t, "unknown", AuditAction(200).String())
}

func TestCheck_seesADamagedAuditLog(t *testing.T) {
	for name, damage := range map[string]func(*AuditRecord){
		"a changed text": func(r *AuditRecord) { r.User = "nobody" },
		"a gap":          func(r *AuditRecord) { r.Seq++ },
		"another order":  func(r *AuditRecord) { r.Index = 0 },
		"another kind":   func(r *AuditRecord) { r.Action = AuditNodeDrain },
		"the future":     func(r *AuditRecord) { r.Index = 99 },
	} {
		w := newWorld(t)
		for range 3 {
			w.do(SubmitJobs{Jobs: []NewJob{oneGPU()}, Actor: &Actor{}})
		}
		damage(&w.m.st.audit.logs[auditJobs].at(1).AuditRecord)
		require.NotEmpty(t, Check(w.m.View()), name)
	}
}
