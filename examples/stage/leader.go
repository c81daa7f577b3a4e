package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/devcluster"
)

// patience limits how long a new leader, or a coordinator that was started again, may take.
const patience = 30 * time.Second

// Leader returns the id of the leader, as the gateway reports it.
func Leader(ctx context.Context, r *REST) (string, error) {
	var got struct {
		Leader string `json:"leader"`
	}
	if err := r.Get(ctx, "/cluster", &got); err != nil {
		return "", err
	}
	if got.Leader == "" {
		return "", errors.New("the cluster says that nobody leads")
	}
	return got.Leader, nil
}

// leads reports whether a coordinator leads, according to its metrics.
func leads(ctx context.Context, r devcluster.CoordinatorInfo) bool {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTPAddr+"/metrics", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); strings.HasPrefix(name, "mind_raft_leader") && !strings.HasPrefix(name, "mind_raft_leader_") {
			return value == "1"
		}
	}
	return false
}

// Successor waits until another coordinator than the one that was killed leads, and returns its id and the time since the kill.
func (c *Cluster) Successor(ctx context.Context, killed string, at time.Time) (id string, after time.Duration, err error) {
	for time.Since(at) < patience {
		for _, r := range c.Info.Coordinators {
			if r.ID != killed && leads(ctx, r) {
				return r.ID, time.Since(at), nil
			}
		}
		if err := c.Sleep(ctx, 5*time.Millisecond); err != nil {
			return "", 0, err
		}
	}
	return "", 0, fmt.Errorf("no coordinator leads %s after the leader was killed", patience)
}

// Revive starts a killed coordinator again, waits until it has caught up, and returns how long that took.
func (c *Cluster) Revive(ctx context.Context, dead Target) (time.Duration, error) {
	began := time.Now()
	if err := c.revive(dead); err != nil {
		return 0, err
	}
	for time.Since(began) < patience {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dead.HTTPAddr+"/health/ready", nil)
		if err != nil {
			return 0, err
		}
		if answer, err := http.DefaultClient.Do(req); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return time.Since(began), nil
			}
		}
		if err := c.Sleep(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%s was started again and is not ready after %s", dead.ID, patience)
}
