package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mindcoordinator/mind/api/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
)

// Pauses between rounds in which nobody could take the call.
const (
	minPause = 10 * time.Millisecond
	maxPause = 100 * time.Millisecond
)

// Invoke makes one unary call; see the package comment for when it is repeated.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	call := callOf(ctx)
	a := attempt{
		client: c, method: method, args: args, reply: reply, opts: opts,
		repeatable: reads[method] || hasKey(ctx, call),
		timeout:    c.config.TryTimeout,
	}
	start := time.Now()
	ctx = c.outgoing(ctx, call)
	var tried uint64
	pause := minPause
	for n := 1; ; n++ {
		before := tried
		to := c.pick(&tried, true)
		if n > 1 && tried&(tried-1) == 0 && before != 0 {
			// Everybody was asked: a new round begins.
			if !sleep(ctx, jitter(pause)) {
				return a.giveUp(ctx)
			}
			pause = min(2*pause, maxPause)
		}
		again := a.do(ctx, to)
		if call.Answer != nil {
			call.Answer.Tries = n
			if index := parseIndex(either(a.trailer, a.header, status.KeyIndex)); index > 0 {
				call.Answer.Index = index
			}
		}
		if !again {
			return a.err
		}
		if ctx.Err() != nil || (call.RetryFor > 0 && time.Since(start) >= call.RetryFor) {
			return a.giveUp(ctx)
		}
	}
}

// attempt is a call on its way, try by try.
type attempt struct {
	client     *Client
	method     string
	args       any
	reply      any
	opts       []grpc.CallOption
	repeatable bool
	timeout    time.Duration

	err             error
	header, trailer metadata.MD
	peer            peer.Peer
	hinted          bool // the last try named another leader
	silent          bool // it was cut short
}

// do makes one try and says whether another one is due.
func (a *attempt) do(ctx context.Context, to *target) bool {
	a.header, a.trailer, a.hinted, a.silent = nil, nil, false, false
	opts := make([]grpc.CallOption, 0, len(a.opts)+3)
	opts = append(opts, a.opts...)
	opts = append(opts, grpc.Trailer(&a.trailer), grpc.Header(&a.header))
	try := ctx
	if a.repeatable {
		var cancel context.CancelFunc
		try, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
		a.timeout *= 2
	} else {
		a.peer = peer.Peer{}
		opts = append(opts, grpc.Peer(&a.peer))
	}
	err := to.conn().Invoke(try, a.method, a.args, a.reply, opts...)
	a.err = err
	if raw := either(a.trailer, a.header, status.KeyLeader); raw != "" {
		a.hinted = a.client.learn(raw)
	}
	if err == nil {
		return false
	}
	switch grpcstatus.Code(err) {
	case codes.Unavailable:
		return a.unavailable(to)
	case codes.DeadlineExceeded, codes.Canceled:
		if ctx.Err() != nil || try == ctx {
			return false // the caller's own time is up
		}
		a.silent = true
		to.avoid(illSilent)
		a.client.forget(to)
		return true
	}
	return false
}

// unavailable decides after UNAVAILABLE, from a coordinator or from the
// transport.
func (a *attempt) unavailable(to *target) bool {
	switch either(a.trailer, a.header, status.KeyOutcome) {
	case status.NotSent:
		if !a.hinted {
			a.client.forget(to) // it leads no more, if it ever did
		}
		return true
	case status.Unknown:
		return a.repeatable
	}
	// No coordinator wrote this: the connection failed.
	to.avoid(illBroken)
	a.client.forget(to)
	// Without a peer the call never was on a connection.
	return a.repeatable || a.peer.Addr == nil
}

// giveUp returns the error of a call that was repeated in vain. What the tries
// met tells more than that time is up.
func (a *attempt) giveUp(ctx context.Context) error {
	if a.silent {
		return grpcstatus.Error(codes.Unavailable, "no coordinator answered in time")
	}
	if a.err == nil {
		return grpcstatus.FromContextError(ctx.Err()).Err()
	}
	return a.err
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// sleep returns false when the context ended first.
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

