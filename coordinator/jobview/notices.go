package jobview

import (
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// noticesView says which notices a URL gets of a job.
func noticesView(n *notices.Notices) *v1.NotifyConfig {
	out := &v1.NotifyConfig{Url: n.Wanted.URL}
	for _, e := range notices.All() {
		if n.Wanted.On.Has(e) {
			out.On = append(out.On, e.String())
		}
	}
	if n.Wanted.On.Has(notices.Waiting) {
		out.WaitingAfterSeconds = proto.Int32(int32(n.Wanted.Wait / 1e9))
	}
	return out
}

// Told returns a job as the receiver of a notice sees it: how it is, and not what it runs, with which environment and where.
func Told(v *fsm.View, j *work.Job) *v1.Job {
	all := Of(v, j, false)
	return &v1.Job{
		JobId: all.JobId, Name: all.Name, TenantId: all.TenantId, UserId: all.UserId, Status: all.Status, Queue: all.Queue,
		Labels: all.Labels, Attempt: all.Attempt, ExitCode: all.ExitCode, ErrorType: all.ErrorType, ErrorMessage: all.ErrorMessage,
		Reason: all.Reason, Progress: all.Progress, Array: all.Array, LastCheckpointId: all.LastCheckpointId,
		CreatedAt: all.CreatedAt, StartedAt: all.StartedAt, FinishedAt: all.FinishedAt, Revision: all.Revision,
	}
}
