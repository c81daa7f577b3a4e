package agent

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

const (
	// maxSlack is how many times as long as usual an agent waits for a connection,
	// maxPatience how many times for an answer on one: who waits for a coordinator
	// that has stopped finds the next leader later.
	maxSlack    = 8
	maxPatience = 2
	// slackKept is how long a session must last that all are waited for as usual
	// again.
	slackKept = time.Minute
)

// errSilent says that a coordinator did not answer in time.
var errSilent = errors.New("the coordinator is silent")

// reach is how the coordinators are reached while a session is looked for.
//
// A connection costs both ends a TLS handshake. While there is no leader every
// agent asks every coordinator again and again, and that must not be what keeps
// the coordinators from electing one: a connection over which a coordinator has
// answered is kept until there is a session.
//
// And a coordinator that is given up too soon is asked again, and has to do again
// what it had half done: one that was silent is given twice as long the next time,
// and is asked after all others.
type reach struct {
	network Network
	creds   credentials.TransportCredentials
	conns   map[string]*grpc.ClientConn
	slack   map[string]time.Duration // by address, a factor above 1
}

// factor is how many times as long as usual to wait for a coordinator.
func (r *reach) factor(addr string) time.Duration { return max(1, r.slack[addr]) }

// order puts those last that were silent.
func (r *reach) order(addrs []string) {
	slices.SortStableFunc(addrs, func(a, b string) int { return int(r.factor(a) - r.factor(b)) })
}

// to returns a connection to a coordinator, which may have to be made first.
func (r *reach) to(addr string) (*grpc.ClientConn, error) {
	if conn, ok := r.conns[addr]; ok {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(r.creds),
		grpc.WithContextDialer(r.network.Dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: r.connectTime(addr)}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	if r.conns == nil {
		r.conns, r.slack = map[string]*grpc.ClientConn{}, map[string]time.Duration{}
	}
	r.conns[addr] = conn
	return conn, nil
}

// connectTime bounds a try to connect.
func (r *reach) connectTime(addr string) time.Duration { return r.factor(addr) * 2 * dialTimeout }

// answerTime is how long to wait for an answer that usually comes within d.
func (r *reach) answerTime(addr string, d time.Duration) time.Duration {
	return min(r.factor(addr), maxPatience) * d
}

// tried notes how a try ended, or the session that came of it.
func (r *reach) tried(addr string, answered, held bool, took time.Duration, why error) {
	switch {
	case held && took >= slackKept:
		clear(r.slack)
	case errors.Is(why, errSilent), !answered && !held && took >= r.connectTime(addr)*9/10:
		r.slack[addr] = min(2*r.factor(addr), maxSlack)
	}
	if !answered {
		r.drop(addr)
	}
}

func (r *reach) drop(addr string) {
	if conn, ok := r.conns[addr]; ok {
		_ = conn.Close()
		delete(r.conns, addr)
	}
}

// keep drops all connections but one.
func (r *reach) keep(addr string) {
	for other := range r.conns {
		if other != addr {
			r.drop(other)
		}
	}
}
