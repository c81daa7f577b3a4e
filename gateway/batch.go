package gateway

import (
	"strconv"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func submitBatch(x *httpRequest) error {
	b, err := x.decodeBatch()
	if err != nil {
		return err
	}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	if err := x.confirmUploads(ctx, b); err != nil {
		return err
	}
	reply := &v1.SubmitJobsResponse{}
	if len(b.Request.Jobs) > 0 {
		if reply, err = x.server.jobs.SubmitJobs(ctx, b.Request); err != nil {
			return err
		}
		if len(reply.GetResults()) != len(b.Request.Jobs) {
			return grpcstatus.Errorf(codes.Internal, "%d results for %d jobs", len(reply.GetResults()), len(b.Request.Jobs))
		}
	}
	x.data(func(buf []byte) []byte { return x.appendResults(buf, b, reply.GetResults()) })
	return nil
}

func (x *httpRequest) decodeBatch() (*wire.Batch, error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	defer release(body)
	b, faults := wire.DecodeBatch(*body, x.server.config.Limits.BatchJobs)
	if len(faults) > 0 {
		return nil, invalidBody(faults)
	}
	return b, nil
}

func (x *httpRequest) appendResults(buf []byte, b *wire.Batch, results []*v1.SubmitJobResult) []byte {
	accepted := 0
	buf = append(buf, `{"results":[`...)
	next := 0
	for i, item := range b.Items {
		if i > 0 {
			buf = append(buf, ',')
		}
		if len(item.Faults) > 0 {
			buf = appendRefused(buf, invalidBody(item.Faults))
			continue
		}
		result := results[next]
		next++
		if code := codes.Code(result.GetCode()); code != codes.OK || result.GetJob() == nil {
			if code == codes.OK {
				code = codes.Internal
			}
			buf = appendRefused(buf, x.explain(grpcstatus.Error(code, result.GetMessage()), result.GetReason()))
			continue
		}
		accepted++
		job := result.GetJob()
		job.Message = wire.WithIgnored(job.Message, item.Ignored)
		buf = append(buf, `{"http_status":201,`...)
		at := len(buf)
		buf = wire.Append(buf, job, x.hides())
		buf = append(buf[:at], buf[at+1:]...) // skip its opening brace: ours is already written
	}
	buf = append(buf, `],"accepted":`...)
	buf = strconv.AppendInt(buf, int64(accepted), 10)
	buf = append(buf, `,"refused":`...)
	buf = strconv.AppendInt(buf, int64(len(b.Items)-accepted), 10)
	return append(buf, '}')
}

func appendRefused(buf []byte, p *problem) []byte {
	buf = append(buf, `{"http_status":`...)
	buf = strconv.AppendInt(buf, int64(p.http), 10)
	buf = append(buf, `,"error":`...)
	buf = appendProblem(buf, p)
	return append(buf, '}')
}
