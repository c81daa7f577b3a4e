package coordinator

import (
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// fetch submits a job whose task waits for its data, explains it meanwhile, and lets it run.
func (p *party) fetch(call partyCall, with []grpc.CallOption) (proto.Message, error) {
	spec := p.spec(partyCall{n: 1, k: call.k})
	spec.Name, spec.ResourceConfig.GpuCount = p.mark+"-fetches", 1
	p.agent.prepare(spec.GetName())
	sent, err := p.jobService().SubmitJob(p.ctx(""), spec)
	if err != nil {
		return nil, err
	}
	id := sent.GetJobId()
	p.bore(id)
	p.c.eventually("the job is never placed", func() bool { return p.agent.has(id) != nil })
	p.agent.transfer(id, &v1.TransferReport{Path: "s3://" + p.mark + "-bucket/rows", DoneBytes: int64(call.k), TotalBytes: 10})
	p.c.eventually("how far the data is never shows", func() bool {
		reply, err := p.jobService().GetJob(p.ctx(""), &v1.GetJobRequest{JobId: id})
		require.NoError(p.t, err)
		return reply.GetJob().GetReason() != ""
	})
	if p.other != nil { // The other party guesses the id.
		_, err := p.other.jobService().ExplainJob(p.other.ctx(""), &v1.ExplainJobRequest{JobId: id})
		require.Error(p.t, err)
	}
	reply, err := p.jobService().ExplainJob(p.ctx(""), &v1.ExplainJobRequest{JobId: id}, with...)
	p.agent.tell(id, &v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 1}}})
	return reply, err
}
