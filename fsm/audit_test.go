package fsm_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

func (w *world) image() *bytes.Reader { return bytes.NewReader(snapshotBytes(w.t, w.m)) }

// told is the audit log, oldest first: "tenant/user action object outcome: message".
func told(v *fsm.View) []string {
	var out []string
	for r := range v.AuditRecords(0) {
		object := r.Object
		if r.Job != 0 {
			object = "a job"
		}
		line := fmt.Sprintf("%s/%s %s %s %d", r.Tenant, r.User, r.Action, object, r.Code)
		if r.Message != "" {
			line += ": " + words.Of(r.Message)
		}
		out = append([]string{line}, out...)
	}
	return out
}

func TestAudit_recordsWhatPeopleDid(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	who := &access.Actor{Tenant: "ops", User: "root", Token: 5, Request: "req-7"}
	w.submit(oneGPU()) // An action of the cluster.
	res := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU(), {Tenant: "acme", Name: "bad", Priority: 99, Shape: work.Shape{GPUs: 1}}}, Actor: &access.Actor{Token: 8}})
	id := res.Results[0].Job
	w.do(
		jobverbs.ControlJob{Job: id, Action: work.ActionPause, Actor: who}, jobverbs.ControlJob{Job: id, Action: work.ActionResume, Actor: who},
		jobverbs.ControlJob{Job: id, Action: work.ActionCancel, Reason: "enough", Actor: who}, jobverbs.ControlJob{Job: id, Action: work.ActionRetry, Actor: who},
		jobverbs.ControlJob{Job: 77, Action: work.ActionCancel, Actor: who},
		nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true, Reason: "fans", Actor: who}, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable, Actor: who},
		nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable, Actor: who}, nodeverbs.SetNode{ID: "n9", Action: nodeverbs.NodeForget, Actor: who},
		queueverbs.PutQueue{Queue: work.Queue{Name: "fast", MaxGPUs: 4}, Actor: who}, queueverbs.DeleteQueue{Name: "fast", Actor: who},
		access.PutToken{Digest: digestOf(1), Tenant: "acme", User: "ann", Name: "ci", Permissions: []string{"p"}, Actor: who},
		access.RevokeToken{Tenant: "acme", ID: 1, Actor: who},
		queueverbs.PutQuota{Tenant: "acme", MaxGPUs: limit(3), Actor: who}, queueverbs.DeleteQuota{Tenant: "acme", Actor: who},
		coordinators.PutCoordinator{Coordinator: coordinators.Coordinator{ID: "c1", RaftAddr: "a:1"}, Actor: who}, coordinators.DeleteCoordinator{ID: "c1", Actor: who},
		checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: 9, Actor: who},
	)
	var token ident.Token
	for k := range w.m.View().TokensOf("acme") {
		token = k.ID
	}
	require.Equal(t, []string{
		"acme/ada job.submit a job 0",
		"acme/ job.submit bad 3: the priority is 0 to 10, not 99",
		"ops/root job.pause a job 0", "ops/root job.resume a job 0", "ops/root job.cancel a job 0: enough", "ops/root job.retry a job 0",
		"ops/root job.cancel a job 5: there is no job " + ident.Job(77).String(),
		"ops/root node.drain n1 0: force fans", "ops/root node.enable n1 0", `ops/root node.forget n9 5: there is no node "n9"`,
		"ops/root queue.put fast 0: weight 1, max_gpus 4", "ops/root queue.delete fast 0",
		"ops/root token.create " + token.String() + " 0: for ann: p",
		"ops/root token.revoke " + ident.Token(1).String() + " 5: there is no token " + ident.Token(1).String(),
		"ops/root quota.put acme 0: max_gpus 3", "ops/root quota.delete acme 0",
		"ops/root coordinator.join c1 0: a:1", "ops/root coordinator.remove c1 0",
		"ops/root checkpoint.delete " + ident.Checkpoint(9).String() + " 5: there is no checkpoint " + ident.Checkpoint(9).String(),
	}, told(w.m.View()))
	for r := range w.m.View().AuditRecords(jobverbs.AuditJobSubmit) {
		if r.Action == jobverbs.AuditJobSubmit {
			require.Equal(t, ident.Token(8), r.Token)
		}
	}
	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	require.Equal(t, told(w.m.View()), told(restored.View()))
	sameState(t, w.m, restored)
}

// The record of a drain says what it does to what runs: stop it now, or by when.
func TestAudit_saysTheDeadlineOfADrain(t *testing.T) {
	who := &access.Actor{Tenant: "ops", User: "root"}
	w := newWorld(t)
	w.node("n1", 8)
	w.do(
		nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Reason: "fans", Actor: who},
		nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Deadline: int64(10 * time.Minute), Reason: "fans", Actor: who},
		nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Deadline: int64(10 * time.Minute), Force: true, Reason: "fans", Actor: who},
	)
	told := told(w.m.View())
	require.Equal(t, []string{
		"ops/root node.drain n1 0: fans", "ops/root node.drain n1 0: deadline 10m0s: fans", "ops/root node.drain n1 0: force deadline 10m0s: fans",
	}, told[len(told)-3:])
}

// A request that is repeated because its answer was lost did one thing, and leaves one record.
func TestAudit_repeatsAreNotRecorded(t *testing.T) {
	w := newWorld(t)
	n := oneGPU()
	n.Key, n.Fingerprint = "k", 1
	var id ident.Job
	for range 2 {
		id = do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{n}, Actor: &access.Actor{}}).Results[0].Job
	}
	for range 2 {
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel, Key: "c", Fingerprint: 1, Actor: &access.Actor{}})
	}
	require.Equal(t, []string{"acme/ada job.submit a job 0", "/ job.cancel a job 0"}, told(w.m.View()))
}

func TestAudit_longTextsAreCut(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Reason: reason.Text(strings.Repeat("ä", 300)), Actor: &access.Actor{Tenant: strings.Repeat("t", 999), Request: strings.Repeat("r", 999)}})
	for r := range w.m.View().AuditRecords(0) {
		require.EqualValues(t, strings.Repeat("ä", 128), r.Message)
		require.Len(t, r.Tenant, access.MaxAuditText)
		require.Len(t, r.Request, access.MaxAuditText)
	}
}

// TestAudit_isBounded fills the log of jobs past its bound: the oldest go, that is told, older views keep what they had,
// and what is not about jobs stays.
func TestAudit_isBounded(t *testing.T) {
	w := newWorld(t)
	w.do(queueverbs.DeleteQueue{Name: "nope", Actor: &access.Actor{Tenant: "ops"}})
	submit := func(n int) {
		c := jobverbs.SubmitJobs{Actor: &access.Actor{Tenant: "acme", User: "ada"}}
		for range n {
			c.Jobs = append(c.Jobs, jobverbs.NewJob{Tenant: "acme", Priority: 99}) // Refused: no job is needed to be recorded.
		}
		w.index++
		w.m.Apply(w.index, w.entry(c))
	}
	submit(1000)
	early := w.m.View()
	for range access.DefaultKeepAudit / 1000 {
		require.Zero(t, w.m.View().AuditDroppedBefore(0))
		submit(1000)
	}
	v := w.m.View()
	require.Empty(t, fsm.Check(v))
	require.Empty(t, fsm.Check(early))
	require.Equal(t, access.DefaultKeepAudit, aboutJobs(v))
	require.Equal(t, 1000, aboutJobs(early))
	require.EqualValues(t, 3, v.AuditDroppedBefore(0), "the records of index 2 are gone")
	require.EqualValues(t, 3, v.AuditDroppedBefore(jobverbs.AuditJobCancel))
	require.Zero(t, v.AuditDroppedBefore(nodeverbs.AuditNodeDrain))
	n := 0
	var last *access.AuditRecord
	for r := range v.AuditRecords(0) {
		n, last = n+1, r
	}
	require.Equal(t, access.DefaultKeepAudit+1, n)
	require.Equal(t, queueverbs.AuditQueueDelete, last.Action)
	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)
	require.EqualValues(t, 3, restored.View().AuditDroppedBefore(0))
	submit(1)
	w.later(time.Second)
	require.Empty(t, fsm.Check(w.m.View()))
}

func TestAuditActions_areReadByNameAndByWhatTheyAreAbout(t *testing.T) {
	for _, name := range access.AuditActions() {
		found := access.ParseAuditActions(name)
		require.Len(t, found, 1, name)
		require.Equal(t, name, found[0].String())
	}
	require.Equal(t, []access.AuditAction{nodeverbs.AuditNodeDrain, nodeverbs.AuditNodeEnable, nodeverbs.AuditNodeForget}, access.ParseAuditActions("node"))
	require.Empty(t, access.ParseAuditActions("nod"))
	require.Empty(t, access.ParseAuditActions(""))
	require.Equal(t, "unknown", access.AuditAction(200).String())
}

// aboutJobs counts the records about jobs.
func aboutJobs(v *fsm.View) int {
	n := 0
	for range v.AuditRecords(jobverbs.AuditJobSubmit) {
		n++
	}
	return n
}
