package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/datatokens"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// site is the service on a state that commands reach without Raft. It records the proposals.
type site struct {
	*Service
	t        *testing.T
	machine  *fsm.Machine
	index    uint64
	proposed []kernel.Command
	// refuses is the number of the first proposal that fails, counted from 1, as do all later ones; 0: none.
	refuses int
	relayed map[string]bool
}

func newSite(t *testing.T, entryBytes int) *site {
	s := &site{t: t, machine: fsm.New(), relayed: map[string]bool{}}
	sealer, err := datatokens.New([]byte("0123456789abcdef"), "", nil)
	require.NoError(t, err)
	s.Service = New(Config{
		State: s, Admission: admission.New(s, admission.NewCapacity(s.View), sealer, admin.LauncherInForce, func(string) error { return nil }), Sealer: sealer,
		Forecasts: forecast.New(-1, func(time.Duration) {}), RenewsThroughPeers: func(node string) bool { return s.relayed[node] }, EntryBytes: entryBytes,
	})
	return s
}

func (s *site) View() *fsm.View                         { return s.machine.View() }
func (s *site) Read(context.Context) (*fsm.View, error) { return s.View(), nil }

func (s *site) Propose(_ context.Context, c kernel.Command) (any, error) {
	s.proposed = append(s.proposed, c)
	if s.refuses > 0 && len(s.proposed) >= s.refuses {
		return nil, errors.New("no quorum")
	}
	return s.apply(c), nil
}

func (s *site) apply(c kernel.Command) any {
	s.t.Helper()
	data, err := kernel.Encode(level.Newest, c)
	require.NoError(s.t, err)
	s.index++
	return s.machine.Apply(s.index, kernel.Pack(level.Newest, time.Unix(1_700_000_000, int64(s.index)), [][]byte{data}))[0]
}

// node registers a node with a GPU.
func (s *site) node(id string) {
	s.apply(nodeverbs.RegisterNode{Node: work.Node{ID: id, BootID: "b", CPUs: 8, MemMB: 1000, GPUs: []work.GPU{
		{UUID: "g-" + id, Index: 0, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
	}}})
}

func of(tenant, key string) context.Context {
	return call.With(context.Background(), &call.Call{Tenant: tenant, User: "ann", Key: key})
}

func command(argument string, gpus int32) *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "job", CommandConfig: &v1.CommandConfig{Argv: []string{"true", argument}, Cwd: "/"}, ResourceConfig: &v1.ResourceConfig{GpuCount: gpus},
	}
}

func requireCode(t *testing.T, want codes.Code, err error) {
	t.Helper()
	require.Equal(t, want.String(), grpcstatus.Code(call.ToStatus(err)).String(), "%v", err)
}

// A batch takes as few entries as possible. Each job that went into none has its own error.
func TestSubmitJobs_travelInEntriesOfBoundedSize(t *testing.T) {
	large := strings.Repeat("x", 1000)
	req := &v1.SubmitJobsRequest{}
	for range 6 {
		req.Jobs = append(req.Jobs, command(large, 0))
	}
	s := newSite(t, 3*(1000+2*jobOverhead))
	reply, err := s.SubmitJobs(of("t1", ""), req)
	require.NoError(t, err)
	require.Len(t, s.proposed, 2)
	seen := map[string]bool{}
	for _, r := range reply.GetResults() {
		require.Zero(t, r.GetCode(), r.GetMessage())
		seen[r.GetJob().GetJobId()] = true
	}
	require.Len(t, seen, 6)

	// The second entry fails: its jobs have errors, and the others are accepted.
	s = newSite(t, 3*(1000+2*jobOverhead))
	s.refuses = 2
	reply, err = s.SubmitJobs(of("t1", ""), req)
	require.NoError(t, err)
	for i, r := range reply.GetResults() {
		require.Equal(t, i < 3, r.GetCode() == 0, "job %d: %s", i, r.GetMessage())
	}
	// All entries fail: the call fails, and may be repeated as a whole.
	s = newSite(t, 3*(1000+2*jobOverhead))
	s.refuses = 1
	_, err = s.SubmitJobs(of("t1", ""), req)
	require.ErrorContains(t, err, "no quorum")
}

// A refused job affects neither the other jobs of a batch nor the keys of those after it.
func TestSubmitJobs_eachHasItsOwnKey(t *testing.T) {
	s := newSite(t, 1<<20)
	bad := command("x", 0)
	bad.CommandConfig.Cwd = "relative"
	req := &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{bad, command("a", 0), command("b", 0)}}
	first, err := s.SubmitJobs(of("t1", "batch"), req)
	require.NoError(t, err)
	require.EqualValues(t, codes.InvalidArgument, first.GetResults()[0].GetCode())
	jobs := s.proposed[0].(jobverbs.SubmitJobs).Jobs
	require.Equal(t, []string{"batch/1", "batch/2"}, []string{jobs[0].Key, jobs[1].Key})
	again, err := s.SubmitJobs(of("t1", "batch"), req)
	require.NoError(t, err)
	require.True(t, proto.Equal(first, again), "%v\n%v", first, again)

	req.IdempotencyKeys = []string{"", "mine", ""}
	_, err = s.SubmitJobs(of("t1", "other"), req)
	require.NoError(t, err)
	jobs = s.proposed[2].(jobverbs.SubmitJobs).Jobs
	require.Equal(t, []string{"mine", "other/2"}, []string{jobs[0].Key, jobs[1].Key})

	for name, wrong := range map[string]*v1.SubmitJobsRequest{
		"no jobs":         {},
		"too many":        {Jobs: make([]*v1.SubmitJobRequest, maxBatch+1)},
		"a key too few":   {Jobs: req.GetJobs(), IdempotencyKeys: []string{"a", "b"}},
		"an id too many":  {Jobs: req.GetJobs(), RequestIds: []string{"a", "b", "c", "d"}},
		"a key too small": {Jobs: req.GetJobs(), IdempotencyKeys: []string{"a"}},
	} {
		_, err := s.SubmitJobs(of("t1", ""), wrong)
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(call.ToStatus(err)), name)
	}
}

// running submits a job and places it.
func (s *site) running(node string) string {
	s.t.Helper()
	reply, err := s.SubmitJob(of("t1", ""), command("x", 1))
	require.NoError(s.t, err)
	id, _ := ident.ParseJob(reply.GetJobId())
	placed := s.apply(jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: node, GPUs: 1}}}}}).(jobverbs.PlaceResult)
	require.Empty(s.t, placed.Refused)
	return reply.GetJobId()
}

// A caller cannot vouch that a task is dead while its node renews leases through others.
func TestCancelJob_noWordAgainstANodeThatIsAlive(t *testing.T) {
	s := newSite(t, 1<<20)
	s.node("n1")
	id := s.running("n1")
	s.apply(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable})
	cancel := func(tenant string) (*v1.CancelJobResponse, error) {
		return s.CancelJob(of(tenant, ""), &v1.CancelJobRequest{JobId: id, Vouch: true})
	}
	s.relayed["n1"] = true
	before := len(s.proposed)
	_, err := cancel("t1")
	requireCode(t, codes.FailedPrecondition, err)
	require.ErrorContains(t, err, "node n1 is cut off but alive")
	require.Len(t, s.proposed, before, "nothing was proposed")
	_, err = cancel("t2")
	requireCode(t, codes.NotFound, err)
	require.NotContains(t, err.Error(), "n1", "another tenant hears nothing of the job")

	s.relayed["n1"] = false
	done, err := cancel("t1")
	require.NoError(t, err)
	require.Equal(t, v1.JobState_CANCELED, done.GetJob().GetState())
}

// A fraction of a GPU and whole GPUs exclude each other: the resources of a retry replace those that they exclude.
func TestRetryJob_putsOtherResourcesInPlace(t *testing.T) {
	s := newSite(t, 1<<20)
	s.node("n1")
	id := s.running("n1")
	key, _ := ident.ParseJob(id)
	resources := func(change *v1.ResourceConfig) *v1.ResourceConfig {
		t.Helper()
		_, err := s.CancelJob(of("t1", ""), &v1.CancelJobRequest{JobId: id})
		require.NoError(t, err)
		_, err = s.RetryJob(of("t1", ""), &v1.RetryJobRequest{JobId: id, ModifyResources: change})
		require.NoError(t, err)
		j, _ := s.View().Job(key)
		spec, err := jobspec.Decode(j)
		require.NoError(t, err)
		return spec.GetResourceConfig()
	}
	j, _ := s.View().Job(key)
	exit := int32(1)
	s.apply(jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{{
		Job: key, Attempt: 1, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &exit, ErrorType: v1.ErrorType_EXIT_NONZERO,
	}}})
	retry, err := s.RetryJob(of("t1", "again"), &v1.RetryJobRequest{JobId: id, ModifyResources: &v1.ResourceConfig{GpuFraction: 0.5}})
	require.NoError(t, err)
	require.Zero(t, retry.GetJob().GetResourceConfig().GetGpuCount())
	require.InDelta(t, 0.5, retry.GetJob().GetResourceConfig().GetGpuFraction(), 1e-9)
	repeated, err := s.RetryJob(of("t1", "again"), &v1.RetryJobRequest{JobId: id, ModifyResources: &v1.ResourceConfig{GpuFraction: 0.5}})
	require.NoError(t, err, "the same key is the same retry, also while the job waits")
	require.Equal(t, retry.GetJob().GetAttempt(), repeated.GetJob().GetAttempt())

	whole := resources(&v1.ResourceConfig{GpuCount: 1, CpuCount: 2})
	require.Zero(t, whole.GetGpuFraction())
	require.EqualValues(t, 1, whole.GetGpuCount())
	require.EqualValues(t, 2, whole.GetCpuCount())
	kept := resources(&v1.ResourceConfig{MemoryMb: 500})
	require.EqualValues(t, 2, kept.GetCpuCount(), "what is not named stays")
	require.EqualValues(t, 1, kept.GetGpuCount())
}

// The idempotency key of one action cannot be used for another one.
func TestControl_aKeyBelongsToItsAction(t *testing.T) {
	s := newSite(t, 1<<20)
	reply, err := s.SubmitJob(of("t1", ""), command("x", 0))
	require.NoError(t, err)
	for range 2 {
		_, err = s.PauseJob(of("t1", "key"), &v1.PauseJobRequest{JobId: reply.GetJobId()})
		require.NoError(t, err)
	}
	_, err = s.CancelJob(of("t1", "key"), &v1.CancelJobRequest{JobId: reply.GetJobId()})
	requireCode(t, codes.AlreadyExists, err)
	_, err = s.ResumeJob(of("t1", ""), &v1.ResumeJobRequest{JobId: reply.GetJobId(), CheckpointId: "newest"})
	requireCode(t, codes.InvalidArgument, err)
	_, err = s.CancelJob(of("t1", ""), &v1.CancelJobRequest{JobId: reply.GetJobId(), Reason: strings.Repeat("x", call.MaxReason+1)})
	requireCode(t, codes.InvalidArgument, err)
}
