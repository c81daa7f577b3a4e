package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// waiting submits a job that no node of the site has room for beside another one.
func (s *site) waiting() string {
	reply, err := s.SubmitJob(of("t1", ""), &v1.SubmitJobRequest{
		Name: "waits", Labels: map[string]string{"a": "1", "b": "2"},
		CommandConfig:    &v1.CommandConfig{Argv: []string{"true"}, Cwd: "/"},
		ResourceConfig:   &v1.ResourceConfig{GpuCount: 1},
		SchedulingConfig: &v1.SchedulingConfig{NotBefore: timestamppb.New(time.Now().Add(time.Hour)), NoticeBeforeLimitSeconds: proto.Int32(5), MaxRuntimeSeconds: 60},
	})
	require.NoError(s.t, err)
	return reply.GetJobId()
}

func TestUpdateJob_changesTheRequestToo(t *testing.T) {
	s := newSite(t, 1<<20)
	s.node("n1")
	id := s.waiting()
	got, err := s.UpdateJob(of("t1", ""), &v1.UpdateJobRequest{
		JobId: id, Name: proto.String("other"), Labels: map[string]string{"a": "", "c": "3"},
		ResourceConfig: &v1.ResourceConfig{GpuFraction: 0.5},
		SchedulingConfig: &v1.SchedulingChange{
			Priority: proto.Int32(9), MaxRuntimeSeconds: proto.Int32(0), MaxRetries: proto.Int32(2), NotBefore: timestamppb.New(time.Unix(1, 0)),
		},
	})
	require.NoError(t, err)
	j := got.GetJob()
	require.Equal(t, "other", j.GetName())
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, j.GetLabels())
	require.Zero(t, j.GetResourceConfig().GetGpuCount(), "a fraction replaces whole GPUs")
	require.InDelta(t, 0.5, j.GetResourceConfig().GetGpuFraction(), 1e-9)
	require.EqualValues(t, 9, j.GetPriority())
	require.EqualValues(t, 9, j.GetSchedulingConfig().GetPriority())
	require.Zero(t, j.GetSchedulingConfig().GetMaxRuntimeSeconds())
	require.EqualValues(t, 2, j.GetMaxRetries())
	require.False(t, j.GetHeld())

	audited := s.proposed[len(s.proposed)-1].(jobverbs.UpdateJob)
	require.Equal(t, `name "other", no label a, label c=3, gpu_fraction 0.5, priority 9, max_retries 2, max_runtime_seconds 0, not_before 1970-01-01T00:00:01Z`, audited.Said)
}

// Fields that are taken away are as if they had never been given.
func TestUpdateJob_takesAway(t *testing.T) {
	s := newSite(t, 1<<20)
	s.node("n1")
	id := s.waiting()
	update := func(req *v1.UpdateJobRequest) *v1.Job {
		req.JobId = id
		got, err := s.UpdateJob(of("t1", ""), req)
		require.NoError(t, err)
		return got.GetJob()
	}
	update(&v1.UpdateJobRequest{
		ResourceConfig:   &v1.ResourceConfig{CpuCount: 1, MemoryMb: 64, NodeSelector: map[string]string{"a": "b"}, ExcludeNodes: []string{"n9"}},
		SchedulingConfig: &v1.SchedulingChange{RetryOn: []string{"exit"}, AllowPendingCapacity: true},
	})
	j := update(&v1.UpdateJobRequest{
		ResourceConfig: &v1.ResourceConfig{CpuCount: 2}, SchedulingConfig: &v1.SchedulingChange{},
		TakenAway: []string{"gpu_count", "memory_mb", "node_selector", "exclude_nodes", "retry_on"},
	})
	require.True(t, proto.Equal(&v1.ResourceConfig{CpuCount: 2}, j.GetResourceConfig()), "%v", j.GetResourceConfig())
	require.Empty(t, j.GetSchedulingConfig().GetRetryOn())
	audited := s.proposed[len(s.proposed)-1].(jobverbs.UpdateJob)
	require.Equal(t, "cpu_count 2, no exclude_nodes, no gpu_count, no memory_mb, no node_selector, retry_on as by default", audited.Said)

	_, err := s.UpdateJob(of("t1", ""), &v1.UpdateJobRequest{JobId: id, TakenAway: []string{"name"}})
	require.ErrorContains(t, err, "has no field name")
}

func TestUpdateJob_saysWhatIsWrong(t *testing.T) {
	s := newSite(t, 1<<20)
	s.node("n1")
	id := s.waiting()
	refused := func(tenant string, req *v1.UpdateJobRequest) (codes.Code, string) {
		req.JobId = id
		_, err := s.UpdateJob(of(tenant, ""), req)
		require.Error(t, err)
		at := grpcstatus.Convert(call.ToStatus(err))
		return at.Code(), at.Message()
	}
	code, _ := refused("t2", &v1.UpdateJobRequest{Name: proto.String("mine")})
	require.Equal(t, codes.NotFound, code)
	code, said := refused("t1", &v1.UpdateJobRequest{})
	require.Equal(t, codes.InvalidArgument, code)
	require.Contains(t, said, "nothing to change")
	code, said = refused("t1", &v1.UpdateJobRequest{SchedulingConfig: &v1.SchedulingChange{Priority: proto.Int32(11)}})
	require.Equal(t, codes.InvalidArgument, code)
	require.Contains(t, said, "priority")
	code, said = refused("t1", &v1.UpdateJobRequest{ResourceConfig: &v1.ResourceConfig{GpuCount: 60}})
	require.Equal(t, codes.InvalidArgument, code)
	require.Contains(t, said, "the most that would fit")
	code, said = refused("t1", &v1.UpdateJobRequest{SchedulingConfig: &v1.SchedulingChange{Queue: proto.String("nowhere")}})
	require.Equal(t, codes.InvalidArgument, code)
	require.Contains(t, said, "nowhere")
	_, err := s.UpdateJob(of("t1", ""), &v1.UpdateJobRequest{
		JobId: id, ResourceConfig: &v1.ResourceConfig{GpuCount: 60}, SchedulingConfig: &v1.SchedulingChange{AllowPendingCapacity: true},
	})
	require.NoError(t, err)
	_, err = s.UpdateJob(of("t1", ""), &v1.UpdateJobRequest{JobId: id, SchedulingConfig: &v1.SchedulingChange{Priority: proto.Int32(7)}})
	require.NoError(t, err, "that it fits no node is no fault of a new priority")
}

func TestHoldJob_andRelease(t *testing.T) {
	s := newSite(t, 1<<20)
	s.node("n1")
	id := s.waiting()
	held, err := s.HoldJob(of("t1", ""), &v1.HoldJobRequest{JobId: id, Reason: "the data is wrong"})
	require.NoError(t, err)
	require.True(t, held.GetJob().GetHeld())
	require.Equal(t, "held by a user: the data is wrong; `mind release` lets it start", held.GetJob().GetReason())
	_, err = s.HoldJob(of("t2", ""), &v1.HoldJobRequest{JobId: id})
	require.Equal(t, codes.NotFound, grpcstatus.Code(call.ToStatus(err)))
	released, err := s.ReleaseJob(of("t1", ""), &v1.ReleaseJobRequest{JobId: id})
	require.NoError(t, err)
	require.Contains(t, released.GetJob().GetReason(), "not_before")
}
