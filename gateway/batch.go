package gateway

import (
	"fmt"
	"net/http"
	"strconv"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// batch is a body of POST /jobs/batch, job by job. A job that is not of the
// schema is answered in its place and does not keep the others from going.
type batch struct {
	request *v1.SubmitJobsRequest // the jobs that are of the schema
	items   []batchItem
	sent    int // jobs in the body, more than items when there are too many
}

type batchItem struct {
	faults  []Fault // of the job; it was not sent
	ignored []string
}

func submitBatch(x *exchange) error {
	b, err := x.decodeBatch()
	if err != nil {
		return err
	}
	ctx, cancel, err := x.call(true)
	if err != nil {
		return err
	}
	defer cancel()
	reply := &v1.SubmitJobsResponse{}
	if len(b.request.Jobs) > 0 {
		if reply, err = x.server.jobs.SubmitJobs(ctx, b.request); err != nil {
			return err
		}
		if len(reply.GetResults()) != len(b.request.Jobs) {
			return grpcstatus.Errorf(codes.Internal, "%d results for %d jobs", len(reply.GetResults()), len(b.request.Jobs))
		}
	}
	x.data(http.StatusMultiStatus, func(buf []byte) []byte { return x.appendResults(buf, b, reply.GetResults()) })
	return nil
}

func (x *exchange) decodeBatch() (*batch, error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	defer release(body)
	b, faults := readBatch(*body, x.server.config.Limits.BatchJobs)
	if len(faults) > 0 {
		return nil, invalidBody(faults)
	}
	return b, nil
}

// readBatch returns the faults of the body as a whole, or the batch with those
// of each job.
func readBatch(body []byte, most int) (*batch, []Fault) {
	text, fault := validJSON(body)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	b := &batch{request: &v1.SubmitJobsRequest{}}
	d := decoder{text: text}
	d.space()
	s := schemaOf(b.request.ProtoReflect().Descriptor())
	d.value(func() {
		d.members(func(name string) {
			f := s.fields[name]
			if f == nil {
				d.unknown(s, name)
				return
			}
			d.push(step{name: name})
			if name == "jobs" {
				d.value(func() { b.readJobs(&d, most) }, '[', "a list of jobs")
			} else {
				d.field(b.request.ProtoReflect(), f)
			}
			d.pop()
		})
	}, '{', "an object")
	if len(d.faults) == 0 {
		d.faults = b.check(most)
	}
	b.keepKeys()
	return b, d.faults
}

func (b *batch) readJobs(d *decoder, most int) {
	b.items, b.request.Jobs, b.sent = nil, nil, 0
	d.elements(func(int) {
		if b.sent++; b.sent > most {
			d.skip()
			return
		}
		job := &v1.SubmitJobRequest{}
		one := decoder{text: d.text, at: d.at}
		named := one.named(job)
		d.at = one.at
		if !named && len(one.faults) < maxFaults {
			one.faults = append(one.faults, nameMissing)
		}
		b.items = append(b.items, batchItem{faults: one.faults, ignored: one.ignored})
		if len(one.faults) == 0 {
			b.request.Jobs = append(b.request.Jobs, job)
		}
	})
}

func (b *batch) check(most int) []Fault {
	if len(b.items) == 0 {
		return []Fault{{"jobs", "is required: a list of 1 to " + strconv.Itoa(most) + " jobs"}}
	}
	if b.sent > most {
		return []Fault{{"jobs", fmt.Sprintf("holds %d jobs; at most %d may be sent at once", b.sent, most)}}
	}
	keys := b.request.IdempotencyKeys
	if len(keys) > 0 && len(keys) != len(b.items) {
		return []Fault{{"idempotency_keys", fmt.Sprintf("holds %d keys for %d jobs; give one for each job, or none", len(keys), len(b.items))}}
	}
	var faults []Fault
	for i, key := range keys {
		if key != "" && !callersKey(key) && len(faults) < maxFaults {
			faults = append(faults, Fault{fmt.Sprintf("idempotency_keys[%d]", i), keyRule})
		}
	}
	return faults
}

// keepKeys drops the keys of jobs that are not sent.
func (b *batch) keepKeys() {
	if len(b.request.IdempotencyKeys) != len(b.items) {
		return
	}
	var kept []string
	for i, key := range b.request.IdempotencyKeys {
		if len(b.items[i].faults) == 0 {
			kept = append(kept, key)
		}
	}
	b.request.IdempotencyKeys = kept
}

func (x *exchange) appendResults(buf []byte, b *batch, results []*v1.SubmitJobResult) []byte {
	accepted := 0
	buf = append(buf, `{"results":[`...)
	next := 0
	for i, item := range b.items {
		if i > 0 {
			buf = append(buf, ',')
		}
		if len(item.faults) > 0 {
			buf = appendRefused(buf, invalidBody(item.faults))
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
		job.Message = withIgnored(job.Message, item.ignored)
		buf = append(buf, `{"http_status":201,`...)
		at := len(buf)
		buf = appendMessage(buf, job, x.hides())
		buf = append(buf[:at], buf[at+1:]...) // its opening brace: ours is there
	}
	buf = append(buf, `],"accepted":`...)
	buf = strconv.AppendInt(buf, int64(accepted), 10)
	buf = append(buf, `,"refused":`...)
	buf = strconv.AppendInt(buf, int64(len(b.items)-accepted), 10)
	return append(buf, '}')
}

func appendRefused(buf []byte, p *problem) []byte {
	buf = append(buf, `{"http_status":`...)
	buf = strconv.AppendInt(buf, int64(p.http), 10)
	buf = append(buf, `,"error":`...)
	buf = appendProblem(buf, p)
	return append(buf, '}')
}
