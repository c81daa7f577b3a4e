package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/wire"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// Health answers as published, without the envelope.
func health(x *exchange) error {
	x.send(http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
	return nil
}

// The coordinators are asked readyPace apart, and each question may take readyWait.
const (
	readyPace = time.Second
	readyWait = 2 * time.Second
)

// readiness is what the coordinators last said of themselves.
type readiness struct {
	mu     sync.Mutex
	looked bool
	// coordinators and leader are the checks as callers read them: "ok", or why not.
	coordinators, leader string
	// permanent: waiting does not help, such as after a wrong api_secret.
	permanent bool
	// linearizable and stale are when such a read last succeeded.
	linearizable, stale time.Time
}

const checkOK = "ok"

// watchReadiness asks the coordinators until ctx ends.
func (s *server) watchReadiness(ctx context.Context) {
	ticker := time.NewTicker(readyPace)
	defer ticker.Stop()
	for {
		s.lookAtCoordinators(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lookAtCoordinators finds out whether linearizable reads are possible, and if not, whether stale ones are and why.
func (s *server) lookAtCoordinators(ctx context.Context) {
	coordinators, leader, permanent := checkOK, checkOK, false
	err := s.askQueues(ctx, status.Linearizable)
	linearizable, stale := err == nil, err == nil
	if err != nil {
		leader = "unknown"
		if err = s.askQueues(ctx, status.Stale); err == nil {
			stale = true
			leader = s.whyNotLinearizable(ctx)
		} else {
			code := grpcstatus.Code(err)
			coordinators, permanent = codeName(code), code != codes.Unavailable && code != codes.DeadlineExceeded
		}
	}
	if ctx.Err() != nil {
		return
	}
	r, now := &s.ready, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked, r.coordinators, r.leader, r.permanent = true, coordinators, leader, permanent
	if linearizable {
		r.linearizable = now
	}
	if stale {
		r.stale = now
	}
}

// askQueues makes the cheapest read there is.
func (s *server) askQueues(ctx context.Context, consistency string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	call := client.Call{Tenant: "default", RetryFor: readyWait, Consistency: consistency}
	_, err := s.cluster.ListQueues(client.WithCall(ctx, call), &v1.ListQueuesRequest{})
	return err
}

func (s *server) whyNotLinearizable(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	ctx = client.WithCall(ctx, client.Call{Tenant: "default", RetryFor: readyWait, Consistency: status.Stale})
	reply, err := s.cluster.GetCluster(ctx, &v1.GetClusterRequest{})
	if err != nil {
		reply = nil
	}
	return whyNoLeader(reply)
}

// whyNoLeader reads it off what one coordinator sees of the others.
func whyNoLeader(view *v1.GetClusterResponse) string {
	voters, alive, known := 0, 0, false
	for _, c := range view.GetCoordinators() {
		if !c.GetVoter() {
			continue
		}
		voters++
		known = known || c.GetLiveness() != "unknown"
		if c.GetLiveness() == "alive" {
			alive++
		}
	}
	are := "are"
	if alive == 1 {
		are = "is"
	}
	switch majority := voters/2 + 1; {
	case view.GetLeader() != "":
		return fmt.Sprintf("leader %s does not confirm that it leads", view.GetLeader())
	case !known:
		return "no leader"
	case alive < majority:
		return fmt.Sprintf("no quorum: %d of %d voters %s alive, %d are needed", alive, voters, are, majority)
	default:
		return fmt.Sprintf("no leader: %d of %d voters %s alive, an election should follow", alive, voters, are)
	}
}

// ready answers whether requests sent here are answered: those without any wish as to consistency, or with consistency=stale,
// stale reads. While they wait for a leader they still are. So what fails must have failed for as long as requests wait.
func ready(x *exchange) error {
	s := x.server
	consistency, err := x.consistency()
	if err != nil {
		return err
	}
	if s.draining.Load() {
		x.send(http.StatusServiceUnavailable, []byte(`{"status":"not_ready","checks":{"gateway":"draining"}}`+"\n"))
		return nil
	}
	r := &s.ready
	r.mu.Lock()
	looked := r.looked
	r.mu.Unlock()
	if !looked { // It was started a moment ago.
		s.lookAtCoordinators(x.r.Context())
	}
	r.mu.Lock()
	coordinators, leader, permanent, last := r.coordinators, r.leader, r.permanent, r.linearizable
	if consistency == status.Stale {
		last = r.stale
	}
	r.mu.Unlock()
	patience := s.config.Timeouts.NoLeader
	waiting := !permanent && time.Since(last) < patience
	failing := coordinators != checkOK || leader != checkOK && consistency != status.Stale
	if leader != checkOK && coordinators == checkOK {
		if waiting && failing {
			leader += fmt.Sprintf("; requests wait up to %s for one", patience)
		} else {
			leader += "; writes and linearizable reads fail, stale reads work"
		}
	}
	code, verdict := http.StatusOK, "ready"
	if failing && !waiting {
		code, verdict = http.StatusServiceUnavailable, "not_ready"
	}
	b := wire.AppendString([]byte(`{"status":`), verdict)
	b = wire.AppendString(append(b, `,"checks":{"gateway":"ok","coordinators":`...), coordinators)
	b = wire.AppendString(append(b, `,"leader":`...), leader)
	x.send(code, append(b, "}}\n"...))
	return nil
}

func serveMetrics(x *exchange) error {
	x.code = http.StatusOK
	x.mark(x.w.Header())
	x.server.metrics.handler.ServeHTTP(x.w, x.r)
	return nil
}

func serveOpenAPI(x *exchange) error {
	h := x.w.Header()
	document := x.server.document()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	x.mark(h)
	x.code = http.StatusOK
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(document) // a caller who hung up needs no answer
	return nil
}
