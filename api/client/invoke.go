package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/api/status"
)

// The shortest and the longest pause after a round in which no coordinator accepted the call.
const (
	minPause = 10 * time.Millisecond
	maxPause = 100 * time.Millisecond
)

// Invoke makes one unary call. The package comment says when it is repeated.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	call, declared := callOf(ctx), methods.Of(method)
	a := attempt{
		client: c, method: method, args: args, reply: reply, opts: opts,
		repeatable: declared.ReadOnly || hasKey(ctx, call),
		start:      time.Now(), retryFor: call.RetryFor, timeout: c.config.TryTimeout,
	}
	if declared.WaitsForNodes {
		a.timeout = slowTry
	}
	ctx = c.outgoing(ctx, call)
	err := a.run(ctx)
	if call.Answer != nil {
		call.Answer.Tries, call.Answer.Outcome = a.tries, a.outcome(err)
		if index := parseIndex(one(a.trailer, status.KeyIndex)); index > 0 {
			call.Answer.Index = index
		}
	}
	return err
}

// attempt is a call in flight, over all its tries.
type attempt struct {
	client     *Client
	method     string
	args       any
	reply      any
	opts       []grpc.CallOption
	repeatable bool
	start      time.Time
	retryFor   time.Duration
	timeout    time.Duration // of the next try

	tries   int
	trailer metadata.MD // of the last try
	peer    peer.Peer
	failure error // of the last try that may be repeated
	touched bool  // a try may have had an effect
}

// outcome combines the outcomes of all tries. The last try may have had no effect although an earlier one had.
func (a *attempt) outcome(err error) string {
	last := one(a.trailer, status.KeyOutcome)
	switch grpcstatus.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if last == status.NodeSilent {
			return last
		}
		if a.touched {
			return status.Unknown
		}
		return status.NotSent
	}
	return last
}

func (a *attempt) run(ctx context.Context) error {
	var tried uint64
	pause := minPause
	for a.tries = 1; ; a.tries++ {
		before := tried
		to := a.client.pick(&tried, true)
		if before != 0 && tried&(tried-1) == 0 {
			// All coordinators were called: this is the first of a new round.
			if !sleep(ctx, jitter(pause)) {
				return a.failure
			}
			pause = min(2*pause, maxPause)
		}
		again, err := a.do(ctx, to)
		if !again {
			return err
		}
		a.failure = err
		if ctx.Err() != nil || (a.retryFor > 0 && time.Since(a.start) >= a.retryFor) {
			return err
		}
	}
}

// do makes one try and reports whether the call must be tried again.
func (a *attempt) do(ctx context.Context, to *target) (again bool, err error) {
	a.trailer = nil
	a.peer = peer.Peer{}
	opts := make([]grpc.CallOption, 0, len(a.opts)+2)
	opts = append(opts, a.opts...)
	opts = append(opts, grpc.Trailer(&a.trailer), grpc.Peer(&a.peer))
	try := ctx
	if a.repeatable {
		var cancel context.CancelFunc
		try, cancel = context.WithTimeout(ctx, a.tryTimeout())
		defer cancel()
	}
	began := time.Now()
	err = to.conn().Invoke(try, a.method, a.args, a.reply, opts...)
	if raw := one(a.trailer, status.KeyLeader); raw != "" {
		a.client.learn(raw, err == nil)
	}
	if err == nil {
		to.recovered()
		return false, nil
	}
	// Without a peer the call was never sent.
	a.touched = a.touched || a.peer.Addr != nil && one(a.trailer, status.KeyOutcome) != status.NotSent
	switch grpcstatus.Code(err) {
	case codes.Unavailable:
		return a.unavailable(to), err
	case codes.DeadlineExceeded, codes.Canceled:
		return a.late(ctx, try, began, to, err)
	}
	return false, err
}

// tryTimeout returns the timeout of the next try: twice that of the previous one, and after a failure at most the rest of
// RetryFor.
func (a *attempt) tryTimeout() time.Duration {
	timeout := a.timeout
	a.timeout = min(2*a.timeout, maxTry)
	if a.tries > 1 && a.retryFor > 0 {
		timeout = max(minTry, min(timeout, a.retryFor-time.Since(a.start)))
	}
	return timeout
}

// Limits of one try.
const (
	minTry = 50 * time.Millisecond
	maxTry = 10 * time.Second
	// slowTry is the limit for reads that wait for nodes. It is longer than a coordinator waits for a node.
	slowTry = 25 * time.Second
)

// skew is how much earlier than the client a coordinator may see the end of a try.
const skew = 250 * time.Millisecond

// callerIsOut reports whether the caller's deadline has passed, or will pass before another try is possible.
func callerIsOut(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < minTry
}

// late decides whether to try again after a try that was not answered in time, or whose coordinator says that its time
// is over.
func (a *attempt) late(ctx, try context.Context, began time.Time, to *target, err error) (bool, error) {
	over := try.Err() != nil
	if deadline, ok := try.Deadline(); ok && a.repeatable && grpcstatus.Code(err) == codes.DeadlineExceeded && !callerIsOut(ctx) {
		// The coordinator measures the same time, and may see its end first.
		over = over || time.Until(deadline) < min(skew, time.Since(began))
	}
	switch {
	case ctx.Err() == nil && over:
		to.fellSilent()
		a.client.forget(to)
		return true, grpcstatus.Errorf(codes.Unavailable, "coordinator %s did not answer in time", to.addr)
	case a.failure != nil && grpcstatus.Code(err) == codes.DeadlineExceeded && (ctx.Err() != nil || callerIsOut(ctx)):
		// It is more precise than that the time is over. The coordinator may see the end of the caller's time first.
		return false, a.failure
	case ctx.Err() == nil:
		return a.repeatable, err
	}
	return false, err
}

// unavailable decides whether to try again after UNAVAILABLE from a coordinator or from the transport.
func (a *attempt) unavailable(to *target) bool {
	switch one(a.trailer, status.KeyOutcome) {
	case status.NotSent:
		a.client.forget(to) // it does not lead
		return true
	case status.Unknown:
		return a.repeatable
	case status.NodeSilent:
		return false // the coordinator works
	}
	// The connection failed; the error is not from a coordinator.
	to.avoid(illBroken)
	a.client.forget(to)
	return a.repeatable || a.peer.Addr == nil
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// sleep waits for d, and returns false if the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
