// Package submits takes jobs from callers, one by one or in batches, and sends those that arrive at the same time to the
// coordinators in one call (SubmitJobs): under load most of the cost of a submit is the call through two processes, and a
// shared call divides it.
//
// Guarantees: a submit does not wait for others: it is sent alone unless other submits of its caller are in flight. Each
// keeps its own idempotency key, so that it can be sent alone later. Submits in one call have the same tenant, user and
// token.
//
// Not guaranteed: an order among submits that arrive at the same time.
//
// The package has no goroutines. One of the requests in a group drives: it makes the call in its own handler.
// Afterwards it passes the submits that have gathered meanwhile to one of the waiting requests.
package submits

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Submits sends jobs to the coordinators.
type Submits struct {
	jobs  v1.JobServiceClient
	mu    sync.Mutex
	lanes map[laneKey]*lane
}

// laneKey identifies the caller: submits in one call have the same tenant, user and token.
type laneKey struct{ tenant, user, token string }

type lane struct {
	driving int
	waiting []*submission
}

// submission is one job in flight.
type submission struct {
	request *v1.SubmitJobRequest
	call    client.Call
	done    chan result // holds one
}

// result is the result of a submission, or the request to drive a group.
type result struct {
	drive []*submission
	reply *v1.SubmitJobResponse
	// answer has the metadata of the reply.
	answer client.Answer
	err    error
	alone  bool // the shared call failed: send it alone
}

const (
	// MaxCalls is the number of calls in flight for one caller. More calls share less: with 64 clients on 2 cores, 2
	// carried a sixth more than 4, and 4 a tenth more than 8.
	MaxCalls = 2
	// MaxJobs is the number of jobs in a call, so that they fit one log entry.
	MaxJobs = 64
	// MaxBytes is the largest body of a job in a shared call. A larger job gets its own call.
	MaxBytes = 4 << 10
	// MaxWait is how long a submit waits for a shared call: if it takes longer, the calls ahead are stuck.
	MaxWait = 250 * time.Millisecond
)

// New returns Submits that send jobs with a client.
func New(jobs v1.JobServiceClient) *Submits {
	return &Submits{jobs: jobs, lanes: map[laneKey]*lane{}}
}

// Submit sends one job, with others or alone. limit limits a call that several requests share.
func (s *Submits) Submit(ctx context.Context, call client.Call, request *v1.SubmitJobRequest, limit time.Duration) (*v1.SubmitJobResponse, client.Answer, error) {
	key := laneKey{call.Tenant, call.User, call.Token}
	own := &submission{request: request, call: call}
	s.mu.Lock()
	l := s.lanes[key]
	if l == nil {
		l = &lane{}
		s.lanes[key] = l
	}
	if l.driving < MaxCalls {
		l.driving++
		s.mu.Unlock()
		defer s.handOver(key, l)
		return s.alone(ctx, own)
	}
	own.done = make(chan result, 1)
	l.waiting = append(l.waiting, own)
	s.mu.Unlock()
	r := s.wait(ctx, l, own)
	if r.drive != nil {
		r = s.drive(ctx, key, l, r.drive, own, limit)
	}
	if r.alone {
		return s.alone(ctx, own)
	}
	return r.reply, r.answer, r.err
}

// alone sends one job in its own call.
func (s *Submits) alone(ctx context.Context, own *submission) (*v1.SubmitJobResponse, client.Answer, error) {
	var answer client.Answer
	call := own.call
	call.Answer = &answer
	reply, err := s.jobs.SubmitJob(client.WithCall(ctx, call), own.request)
	return reply, answer, err
}

// wait returns the result of a submission, which may be that it must be sent alone.
func (s *Submits) wait(ctx context.Context, l *lane, own *submission) result {
	patience := time.NewTimer(MaxWait)
	defer patience.Stop()
	select {
	case r := <-own.done:
		return r
	case <-patience.C:
		if s.leave(l, own) {
			return result{alone: true}
		}
	case <-ctx.Done():
		if s.leave(l, own) {
			return result{err: grpcstatus.FromContextError(ctx.Err()).Err()}
		}
	}
	// The submission is part of a group. A request that must drive has others in its group, so it drives even if its
	// own caller has disconnected.
	select {
	case r := <-own.done:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-own.done:
		return r
	default:
		return result{err: grpcstatus.FromContextError(ctx.Err()).Err()}
	}
}

// leave removes a waiting submission, and reports whether it was still waiting.
func (s *Submits) leave(l *lane, own *submission) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range l.waiting {
		if w == own {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// handOver ends a drive: one of the waiting requests drives next.
func (s *Submits) handOver(key laneKey, l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.waiting) == 0 {
		if l.driving--; l.driving == 0 {
			delete(s.lanes, key)
		}
		return
	}
	n := min(len(l.waiting), MaxJobs)
	group := append([]*submission(nil), l.waiting[:n]...)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	group[0].done <- result{drive: group}
}

// drive sends a group and gives each member its result; it returns the result of own.
func (s *Submits) drive(ctx context.Context, key laneKey, l *lane, group []*submission, own *submission, limit time.Duration) result {
	defer s.handOver(key, l)
	if len(group) == 1 {
		reply, answer, err := s.alone(ctx, own)
		return result{reply: reply, answer: answer, err: err}
	}
	results := s.together(ctx, group, limit)
	for i, member := range group {
		if member != own {
			member.done <- results[i]
		}
	}
	return results[0]
}

// together makes one call for a group. It continues when the caller of the driver hangs up, because others share it.
func (s *Submits) together(ctx context.Context, group []*submission, limit time.Duration) []result {
	request := &v1.SubmitJobsRequest{
		Jobs: make([]*v1.SubmitJobRequest, len(group)), IdempotencyKeys: make([]string, len(group)),
		RequestIds: make([]string, len(group)),
	}
	for i, member := range group {
		request.Jobs[i], request.IdempotencyKeys[i], request.RequestIds[i] = member.request, member.call.IdempotencyKey, member.call.RequestID
	}
	var answer client.Answer
	call := group[0].call // the key makes the call repeatable; each job has its own key, too
	call.Answer = &answer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	reply, err := s.jobs.SubmitJobs(client.WithCall(ctx, call), request)
	results := make([]result, len(group))
	for i := range results {
		results[i].answer = answer
		switch {
		case err != nil:
			// A coordinator may have refused the group because of one of its members.
			// An unavailable or overloaded coordinator would treat each alone no better.
			switch grpcstatus.Code(err) {
			case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
				results[i].err = err
			default:
				results[i].alone = true
			}
		case i >= len(reply.GetResults()):
			results[i].alone = true
		default:
			results[i] = ofOne(reply.GetResults()[i], answer)
		}
	}
	return results
}

// ofOne returns the result of one member of a group.
func ofOne(r *v1.SubmitJobResult, answer client.Answer) result {
	switch code := codes.Code(r.GetCode()); {
	case code == codes.Unavailable, code == codes.OK && r.GetJob() == nil:
		return result{alone: true}
	case code != codes.OK:
		answer.Outcome = r.GetReason()
		return result{answer: answer, err: grpcstatus.Error(code, r.GetMessage())}
	}
	return result{answer: answer, reply: r.GetJob()}
}

// Callers returns the number of callers with submits in flight.
func (s *Submits) Callers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes)
}
