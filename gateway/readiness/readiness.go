// Package readiness determines whether a gateway can answer requests, and the reason if it cannot.
//
// Guarantees: while requests wait for a leader, the gateway counts as ready; it becomes unready only when reads have failed
// for as long as requests wait. A gateway that just started has asked once before it reports anything.
//
// Not guaranteed: that the next request is answered. The result is up to a second old.
package readiness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// The coordinators are asked every pace, and each call may take wait.
const (
	pace = time.Second
	wait = 2 * time.Second
)

// Watcher keeps the coordinators' last answers.
type Watcher struct {
	cluster  v1.ClusterServiceClient
	patience time.Duration

	mu     sync.Mutex
	looked bool
	// coordinators and leader are the results of the checks for callers: "ok", or the reason.
	coordinators, leader string
	// permanent: waiting does not help, for example after a wrong api_secret.
	permanent bool
	// linearizable and stale are when such a read last succeeded.
	linearizable, stale time.Time
}

const checkOK = "ok"

// New makes a watcher with a client. Requests wait up to patience for a leader.
func New(cluster v1.ClusterServiceClient, patience time.Duration) *Watcher {
	return &Watcher{cluster: cluster, patience: patience}
}

// Run asks the coordinators until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look checks whether linearizable reads are possible, and if not, whether stale reads are, and the reason.
func (w *Watcher) look(ctx context.Context) {
	coordinators, leader, permanent := checkOK, checkOK, false
	err := w.askQueues(ctx, status.Linearizable)
	linearizable, stale := err == nil, err == nil
	if err != nil {
		leader = "unknown"
		if err = w.askQueues(ctx, status.Stale); err == nil {
			stale = true
			leader = w.whyNotLinearizable(ctx)
		} else {
			code := grpcstatus.Code(err)
			coordinators, permanent = status.CodeName(code), code != codes.Unavailable && code != codes.DeadlineExceeded
		}
	}
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.coordinators, w.leader, w.permanent = true, coordinators, leader, permanent
	if linearizable {
		w.linearizable = now
	}
	if stale {
		w.stale = now
	}
}

// askQueues makes the cheapest read.
func (w *Watcher) askQueues(ctx context.Context, consistency string) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	call := client.Call{Tenant: "default", RetryFor: wait, Consistency: consistency}
	_, err := w.cluster.ListQueues(client.WithCall(ctx, call), &v1.ListQueuesRequest{})
	return err
}

func (w *Watcher) whyNotLinearizable(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ctx = client.WithCall(ctx, client.Call{Tenant: "default", RetryFor: wait, Consistency: status.Stale})
	reply, err := w.cluster.GetCluster(ctx, &v1.GetClusterRequest{})
	if err != nil {
		reply = nil
	}
	return whyNoLeader(reply)
}

// whyNoLeader derives the reason from one coordinator's view of the others.
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
		return fmt.Sprintf("leader %s cannot confirm its leadership", view.GetLeader())
	case !known:
		return "no leader"
	case alive < majority:
		return fmt.Sprintf("no quorum: %d of %d voters %s alive, %d are needed", alive, voters, are, majority)
	default:
		return fmt.Sprintf("no leader: %d of %d voters %s alive, an election should follow", alive, voters, are)
	}
}

// Result reports whether the gateway can answer requests; the checks give the reason if it cannot.
type Result struct {
	Ready                bool
	Coordinators, Leader string
}

// Check evaluates the last answers of the coordinators; with stale, for stale reads, which need no leader.
func (w *Watcher) Check(ctx context.Context, stale bool) Result {
	w.mu.Lock()
	looked := w.looked
	w.mu.Unlock()
	if !looked { // the gateway has just started
		w.look(ctx)
	}
	w.mu.Lock()
	v, permanent, last := Result{Coordinators: w.coordinators, Leader: w.leader}, w.permanent, w.linearizable
	if stale {
		last = w.stale
	}
	w.mu.Unlock()
	waiting := !permanent && time.Since(last) < w.patience
	failing := v.Coordinators != checkOK || v.Leader != checkOK && !stale
	if v.Leader != checkOK && v.Coordinators == checkOK {
		if waiting && failing {
			v.Leader += fmt.Sprintf("; requests wait up to %s for one", w.patience)
		} else {
			v.Leader += "; writes and linearizable reads fail, stale reads work"
		}
	}
	v.Ready = !failing || waiting
	return v
}
