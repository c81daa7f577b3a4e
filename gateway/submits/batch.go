package submits

import (
	"strconv"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func (h *Handlers) submitBatch(x *rest.Request) error {
	b, err := decodeBatch(x)
	if err != nil {
		return err
	}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	if err := h.uploads.ConfirmAll(ctx, x, b); err != nil {
		return err
	}
	reply := &v1.SubmitJobsResponse{}
	if len(b.Request.Jobs) > 0 {
		if reply, err = h.jobs.SubmitJobs(ctx, b.Request); err != nil {
			return err
		}
		if len(reply.GetResults()) != len(b.Request.Jobs) {
			return grpcstatus.Errorf(codes.Internal, "%d results for %d jobs", len(reply.GetResults()), len(b.Request.Jobs))
		}
	}
	x.Data(func(buf []byte) []byte { return appendResults(buf, x, b, reply.GetResults()) })
	return nil
}

func decodeBatch(x *rest.Request) (*wire.Batch, error) {
	body, err := x.Body()
	if err != nil {
		return nil, err
	}
	defer rest.Release(body)
	b, faults := wire.DecodeBatch(*body, x.Server.Limits.BatchJobs)
	if len(faults) > 0 {
		return nil, rest.InvalidBody(faults)
	}
	return b, nil
}

func appendResults(buf []byte, x *rest.Request, b *wire.Batch, results []*v1.SubmitJobResult) []byte {
	accepted := 0
	buf = append(buf, `{"results":[`...)
	next := 0
	for i, item := range b.Items {
		if i > 0 {
			buf = append(buf, ',')
		}
		if len(item.Faults) > 0 {
			buf = appendRefused(buf, rest.InvalidBody(item.Faults))
			continue
		}
		result := results[next]
		next++
		if code := codes.Code(result.GetCode()); code != codes.OK || result.GetJob() == nil {
			if code == codes.OK {
				code = codes.Internal
			}
			buf = appendRefused(buf, x.Explain(grpcstatus.Error(code, result.GetMessage()), result.GetReason()))
			continue
		}
		accepted++
		job := result.GetJob()
		job.Message = wire.WithIgnored(job.Message, item.Ignored)
		buf = append(buf, `{"http_status":201,`...)
		at := len(buf)
		buf = wire.Append(buf, job, x.Hides())
		buf = append(buf[:at], buf[at+1:]...) // skip its opening brace: ours is already written
	}
	buf = append(buf, `],"accepted":`...)
	buf = strconv.AppendInt(buf, int64(accepted), 10)
	buf = append(buf, `,"refused":`...)
	buf = strconv.AppendInt(buf, int64(len(b.Items)-accepted), 10)
	return append(buf, '}')
}

func appendRefused(buf []byte, p *rest.Problem) []byte {
	buf = append(buf, `{"http_status":`...)
	buf = strconv.AppendInt(buf, int64(p.HTTP), 10)
	buf = append(buf, `,"error":`...)
	buf = p.Append(buf)
	return append(buf, '}')
}
