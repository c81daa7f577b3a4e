package fsm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/catalog"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/scheduleverbs"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
)

// story is a short log with every kind of row.
func story(t require.TestingT) *world {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 4)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "fast", Weight: 3}}, coordinators.PutCoordinator{Coordinator: coordinators.Coordinator{ID: "c1", RaftAddr: "c1:1", GRPCAddr: "c1:2"}})
	w.do(access.PutToken{Digest: digestOf(9), Tenant: "acme", User: "ann", Permissions: []string{"scaimind:view"}})
	w.do(once.Do{Tenant: "acme", User: "ann", Key: "key", Fingerprint: 1}.Of(queueverbs.PutQueue{Queue: work.Queue{Name: "slow"}}))
	w.do(catalog.PutLauncher{Launcher: testLauncher("CUSTOM")})
	w.index++
	w.m.StoreConfiguration(w.index, []string{"c1", "c2", "c3"})
	n := oneGPU()
	n.Key, n.Fingerprint, n.Retry = "k", 7, work.RetryPolicy{Max: 3, On: work.RetryInfrastructure}
	id := w.submit(n)
	w.later(time.Second)
	g := gang(2)
	g.Queue, g.MaxRuntime = "fast", int64(time.Hour)
	both, waits := w.submit(g), w.submit(oneGPU())
	w.place(id, "n1")
	w.place(both, "n1", "n2")
	w.run(id)
	w.run(both)
	w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) {
		r.Path, r.Digest, r.Step, r.Metrics = "/c/1", "sha256:1", 100, `{"loss":1}`
	})
	w.report(both, 1, jobverbs.ReportEnded, exit(1))
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: w.job(waits).Class(), Reason: reason.New(reason.NeedsFreeGPUs, reason.New(reason.Demand, 8, "H100", 0, 0, 1, 0, 0, 1, ""), 2)}}})
	w.do(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeDrain, Deadline: int64(time.Hour), Reason: "new fans"})
	w.do(jobverbs.ControlJob{Job: waits, Action: work.ActionPause, Key: "p", Fingerprint: 1})
	w.submit(oneGPU())
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: w.job(waits).Class(), Reason: reason.New(reason.NeedsFreeGPUs, reason.New(reason.Demand, 8, "H100", 0, 0, 1, 0, 0, 1, ""), 2)}}})
	loss(w)
	scored := w.submit(anEvaluation())
	w.place(scored, "n4")
	w.run(scored)
	w.scores(scored, "mmlu", `{"accuracy":0.5}`)
	three := int32(3)
	w.do(queueverbs.PutQuota{Tenant: "umbrella", MaxJobs: &three, MaxRunning: &three, By: "root", Actor: &access.Actor{Tenant: "ops", User: "root", Token: 9, Request: "req-1"}})
	limited := oneGPU()
	limited.Tenant = "umbrella"
	held := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{limited}, Actor: &access.Actor{Request: "req-2"}}).Results[0].Job
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: w.m.View().ClassOf(w.job(held)), Reason: reason.New(reason.QuotaOfRunning, 3, 3)}}})
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel, Reason: "enough", Actor: &access.Actor{Tenant: "acme", User: "ada"}})
	restarts(w)
	archived(w)
	shared(w)
	makesRoom(w)
	holds(w)
	anArray(w)
	arranges(w)
	repeats(w)
	w.hosted()
	w.designs()
	w.do(coordinators.NoteTerm{Term: 2, Leader: "c1", Gap: int64(time.Second), Live: 1})
	w.signsIn()
	w.do(jobverbs.OpenTunnel{Tenant: "acme", Job: id, What: "rank 0: bash", Actor: &access.Actor{Tenant: "acme", User: "ada"}})
	tells(w)
	return w
}

// arranges goes on with a maintenance of a node, and a reservation that is called off.
func arranges(w *world) {
	w.node("w1", 2)
	w.node("w2", 2)
	from, until := w.now+int64(time.Hour), w.now+int64(2*time.Hour)
	for _, c := range []windowverbs.PutWindow{
		{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"w1"}, From: from, Until: until, Reason: "a new kernel", By: "root"},
		{Name: "paper", Kind: windows.Reservation, Patterns: []string{"w2"}, Tenant: "umbrella", GPUs: 2, From: from, Until: until},
	} {
		require.Nil(w.t, do[windowverbs.WindowResult](w, c).Refusal)
	}
	require.Nil(w.t, do[windowverbs.WindowResult](w, windowverbs.DeleteWindow{Name: "paper", Kind: windows.Reservation}).Refusal)
}

// repeats goes on with a schedule that was run, one that is paused, and one that is deleted.
func repeats(w *world) {
	w.schedule(asItIs)
	w.schedule(func(c *scheduleverbs.PutSchedule) {
		c.Name, c.Paused, c.Zone, c.Overlap, c.StartWithin = "weekly", true, "Europe/Berlin", schedules.Allow, hour
	})
	w.schedule(func(c *scheduleverbs.PutSchedule) { c.Name = "gone" })
	w.do(scheduleverbs.DeleteSchedule{Tenant: "acme", Name: "gone"})
	w.later(time.Hour)
	require.Equal(w.t, schedules.Started, w.runs(w.due())[0].Outcome)
	w.later(time.Hour)
	require.Equal(w.t, schedules.Skipped, w.runs(w.due())[0].Outcome)
}

// shared goes on with queues below another one, and a policy.
func shared(w *world) {
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "research", Weight: 2, MaxGPUs: 12}}, queueverbs.PutQueue{Queue: work.Queue{Name: "fast", Weight: 3, Parent: "research"}})
	p := w.m.View().Policy()
	p.HalfLife = int64(24 * time.Hour)
	w.do(queueverbs.PutPolicy{Policy: p, Base: p.Revision, Actor: &access.Actor{Tenant: "ops", User: "root"}})
	w.later(time.Minute)
	below := oneGPU()
	below.Queue, below.User = "fast", "ann"
	w.runOn(w.submit(below), "n1")
}

// makesRoom goes on with a job that another one preempts.
func makesRoom(w *world) {
	w.node("n7", 1)
	low, high := oneGPU(), oneGPU()
	low.Priority, low.Preemptible, high.Priority = 1, true, 9
	victim, urgent := w.submit(low), w.submit(high)
	w.place(victim, "n7")
	r := do[jobverbs.PreemptResult](w, jobverbs.PreemptJobs{Preemptions: []jobverbs.Preemption{{
		Job: urgent, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n7", GPUs: 1}}, Victims: []jobverbs.Victim{{Job: victim, Attempt: 1}},
	}}})
	require.Empty(w.t, r.Refused)
	later := w.submit(oneGPU())
	promised := do[jobverbs.PromiseResult](w, jobverbs.PromiseStarts{Starts: []jobverbs.Start{{
		Job: later, Attempt: 1, At: w.now + int64(time.Hour), Tasks: []work.TaskPlacement{{Node: "n7", GPUs: 1}},
		Cause: reason.New(reason.PromiseEarlier),
	}}})
	require.Empty(w.t, promised.Refused)
}

// holds goes on with a gang of which one node failed, and for which the other one is held.
func holds(w *world) {
	w.node("m1", 2)
	w.node("m2", 2)
	id := w.submit(retried(gang(2), 2))
	w.place(id, "m1", "m2")
	w.run(id)
	w.breaksDown(id, 0, v1.ErrorType_GPU_FAULT)
	require.Len(w.t, w.hold(id).Tasks, 1)
}

// anArray goes on with a job array: of its elements one has succeeded, one has failed, one runs, one was canceled, and the
// others wait.
func anArray(w *world) {
	n := inArray(0, 5, 2)
	id := w.submit(n)
	w.runOn(id.At(0), "n1")
	w.runOn(id.At(1), "n1")
	w.report(id.At(0), 0, jobverbs.ReportEnded, exit(0))
	w.report(id.At(1), 0, jobverbs.ReportEnded, exit(4))
	w.runOn(id.At(2), "n1")
	w.do(jobverbs.ControlJob{Job: id.At(5), Action: work.ActionCancel})
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: w.job(id).Class(), Reason: reason.New(reason.MaxParallelReached, 2, 2)}}})
}

// restarts goes on with a job that pauses before its next attempt, and one that is not restartable.
func restarts(w *world) {
	once := oneGPU()
	once.Retry.Never = true
	again, never := w.submit(retried(oneGPU(), 2)), w.submit(once)
	w.runOn(again, "n1")
	w.breaks(again)
	w.runOn(again, "n1")
	w.report(again, 0, jobverbs.ReportProgress, func(r *jobverbs.TaskReport) { r.Step, r.Total = 7, 9 })
	w.report(again, 0, jobverbs.ReportEnded, failed(v1.ErrorType_GPU_FAULT, "XID 79"))
	w.runOn(never, "n1")
}

// loss goes on with two jobs whose node is declared lost: one is replaced, the other one waits.
func loss(w *world) {
	w.node("n3", 8)
	w.node("n4", 8)
	w.ack()
	again := oneGPU()
	again.Retry = work.RetryPolicy{Max: 3, On: work.RetryInfrastructure}
	one, other := w.submit(again), w.submit(again)
	w.place(one, "n3")
	w.place(other, "n3")
	w.run(one)
	w.report(one, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest, r.Step = "/c/2", "sha256:2", 7 })
	w.do(nodeverbs.SetNode{ID: "n3", Action: nodeverbs.NodeUnreachable, Reason: reason.New(reason.NodeSilent, int64(3*time.Second))})
	w.later(time.Minute)
	w.lose("n3", "n4")
	w.place(one, "n4")
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: w.job(other).Class(), Reason: reason.New(reason.WaitsForNodes, 1, "n3")}}})
	w.later(-time.Minute)
}

func TestSnapshot_restoresTheSameState(t *testing.T) {
	w := story(t)
	raw := snapshotBytes(t, w.m)
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(raw), "byte by byte": iotest.OneByteReader(bytes.NewReader(raw)),
	} {
		m := fsm.New()
		var seen []event.Event
		m.OnApply(func(v *fsm.View, e []event.Event) {
			require.Equal(t, w.index, v.Index())
			seen = append(seen, e...)
		})
		require.NoError(t, m.Restore(r), name)
		sameState(t, w.m, m)
		require.Empty(t, fsm.Check(m.View()))
		require.Equal(t, []string{"c1", "c2", "c3"}, m.View().Voters())
		require.Len(t, seen, 1)
		require.Equal(t, event.TopicState, seen[0].Topic)
	}
}

func TestSnapshot_isOfTheMomentItWasTaken(t *testing.T) {
	w := story(t)
	s, want := w.m.Snapshot(), snapshotBytes(t, w.m)
	at := s.Index()
	for range 10 {
		w.submit(oneGPU())
	}
	var b bytes.Buffer
	_, err := s.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, want, b.Bytes())
	require.Equal(t, at, s.Index())
}

func TestSnapshot_writesEveryRecordType(t *testing.T) {
	seen := map[uint64]bool{}
	eachRecord(t, snapshotBytes(t, story(t).m), func(_, number uint64) { seen[number] = true })
	for _, def := range registry.Records() {
		require.True(t, seen[uint64(def.Number)], "the story has no %s", def.Name)
	}
}

// eachRecord finds the records of a snapshot: where each starts, and its type.
func eachRecord(t *testing.T, raw []byte, visit func(at, number uint64)) {
	at := uint64(len("MINDSNAP") + 2)
	next := func() uint64 {
		n, used := binary.Uvarint(raw[at:])
		require.Positive(t, used)
		at += uint64(used)
		return n
	}
	at += next()
	for {
		from := at
		number := next()
		if number == 0 {
			return
		}
		visit(from, number)
		at += next()
	}
}

// seal puts the right checksum at the end of a snapshot that was changed.
func seal(raw []byte) []byte {
	body := raw[:len(raw)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(append([]byte(nil), body...), sum[:]...)
}

func TestRestore_refusesWhatIsNotWhole(t *testing.T) {
	good := snapshotBytes(t, story(t).m)
	change := func(at int, to byte) []byte {
		b := append([]byte(nil), good...)
		b[at] = to
		return b
	}
	var firstRecord uint64
	eachRecord(t, good, func(at, number uint64) {
		if firstRecord == 0 {
			firstRecord = at
		}
	})
	tests := map[string]struct {
		raw  []byte
		says string
	}{
		"nothing":              {nil, "cut off"},
		"something else":       {bytes.Repeat([]byte("x"), 100), "no snapshot of mind"},
		"an earlier format":    {append([]byte("MINDSNAP"), good[8:]...), "of an earlier format: start the version of mind that wrote it"},
		"a newer version":      {seal(change(9, byte(level.Newest)+1)), fmt.Sprintf("version %d; this version of mind reads versions %d to %d", level.Newest+1, level.Oldest, level.Newest)},
		"an unknown record":    {seal(change(int(firstRecord), 99)), "unknown record type 99: a newer version of mind wrote it"},
		"a flipped bit":        {change(len(good)/2, good[len(good)/2]^1), ""},
		"a flipped checksum":   {change(len(good)-1, good[len(good)-1]^1), "checksum is wrong"},
		"another hash":         {otherHash(t), "the state hash is"},
		"a record of 4 GiB":    {append(good[:firstRecord:firstRecord], 30, 0xff, 0xff, 0xff, 0xff, 0x0f), "at most"},
		"a number without end": {append(good[:firstRecord:firstRecord], bytes.Repeat([]byte{0xff}, 11)...), "too large"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.submit(oneGPU())
			before := w.m.View()
			err := w.m.Restore(bytes.NewReader(c.raw))
			require.ErrorContains(t, err, c.says)
			require.Same(t, before, w.m.View(), "nothing has changed")
			w.submit(oneGPU())
		})
	}
	for cut := 0; cut < len(good); cut += 7 {
		require.Error(t, fsm.New().Restore(bytes.NewReader(good[:cut])), "cut off after %d bytes", cut)
	}
	broken := errors.New("the disk is gone")
	err := fsm.New().Restore(io.MultiReader(bytes.NewReader(good[:len(good)/2]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}

// otherHash is a snapshot whose header promises another state.
func otherHash(t *testing.T) []byte {
	raw := snapshotBytes(t, story(t).m)
	start := len("MINDSNAP") + 2
	size, n := binary.Uvarint(raw[start:])
	end := start + n + int(size)
	header := map[uint64]uint64{}
	require.NoError(t, cbor.Unmarshal(raw[start+n:end], &header))
	header[3]++
	body, err := cbor.Marshal(header)
	require.NoError(t, err)
	out := binary.AppendUvarint(append([]byte(nil), raw[:start]...), uint64(len(body)))
	return seal(append(append(out, body...), raw[end:]...))
}

func TestSnapshot_reportsWhatTheWriterSays(t *testing.T) {
	full := errors.New("no space left")
	_, err := story(t).m.Snapshot().WriteTo(iotestWriter{full})
	require.ErrorIs(t, err, full)
}

type iotestWriter struct{ err error }

func (w iotestWriter) Write([]byte) (int, error) { return 0, w.err }

// TestStory_isWhatTheChecksAreTriedOn holds that the story on which TestCheck_canFail of package tables tries the checks is the
// one that is told here. MIND_WRITE_STORY=1 writes it down again.
func TestStory_isWhatTheChecksAreTriedOn(t *testing.T) {
	const file = "work/tables/testdata/story.snapshot"
	raw := snapshotBytes(t, story(t).m)
	if os.Getenv("MIND_WRITE_STORY") != "" {
		require.NoError(t, os.WriteFile(file, raw, 0o644))
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(kept, raw), "the story has changed: run this test with MIND_WRITE_STORY=1")
}
