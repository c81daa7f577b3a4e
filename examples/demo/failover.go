package main

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

// probe submits a small job with an idempotency key, and returns how long the answer took.
func (s *story) probe(ctx context.Context, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	name := fmt.Sprintf("probe-%d", n)
	body := map[string]any{"name": name, "command_config": map[string]any{"argv": []string{"true"}, "cwd": s.workDir}}
	var made job
	began := time.Now()
	if err := s.rest.do(ctx, http.MethodPost, "/jobs", "demo-"+name, body, &made); err != nil {
		return 0, fmt.Errorf("submitting %s: %w", name, err)
	}
	s.submitted = append(s.submitted, made.ID)
	return time.Since(began), nil
}

// leader returns the id of the leader, as the gateway reports it.
func (s *story) leader(ctx context.Context) (string, error) {
	var got struct {
		Leader string `json:"leader"`
	}
	if err := s.rest.get(ctx, "/cluster", &got); err != nil {
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

// killLeader kills the leader, and measures the time until there is a new leader, and the wait of a write that is sent
// at the moment of the kill.
func (s *story) killLeader(ctx context.Context) error {
	var err error
	for n := range 3 {
		if s.usual, err = s.probe(ctx, n+1); err != nil {
			return err
		}
	}
	s.say("a write takes %s", took(s.usual))
	if s.killed, err = s.leader(ctx); err != nil {
		return err
	}
	s.steps[0] = s.watch.step()
	dead, err := s.cluster.kill(s.killed)
	if err != nil {
		return fmt.Errorf("killing the leader: %w", err)
	}
	began := time.Now()
	s.say("kill -9 %d: %s, the leader, is gone; at this moment a job is submitted", dead.Pid, s.killed)

	type result struct {
		waited time.Duration
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		waited, err := s.probe(ctx, 4)
		answered <- result{waited, err}
	}()
	successor, err := s.successor(ctx, began)
	got := <-answered
	if err = errors.Join(err, got.err); err != nil {
		return err
	}
	s.newLeader, s.waited = successor.after, got.waited
	s.say("%s leads, %s after the kill", successor.id, took(s.newLeader))
	s.say("the job that was submitted meanwhile is accepted: its client waited %s and saw no error", took(s.waited))
	if s.steps[1] = s.watch.step(); s.steps[1] == s.steps[0] {
		if err := s.until(ctx, "the training goes on", func(*job) bool { return s.watch.step() > s.steps[0] }); err != nil {
			return err
		}
		s.steps[1] = s.watch.step()
	}
	s.say("the training went on meanwhile: from step %d to step %d", s.steps[0], s.steps[1])
	if _, err := s.probe(ctx, 5); err != nil {
		return err
	}
	return s.revive(ctx, dead)
}

type successor struct {
	id    string
	after time.Duration
}

func (s *story) successor(ctx context.Context, killedAt time.Time) (successor, error) {
	for time.Since(killedAt) < 30*time.Second {
		for _, r := range s.cluster.info.Coordinators {
			if r.ID != s.killed && leads(ctx, r) {
				return successor{r.ID, time.Since(killedAt)}, nil
			}
		}
		if err := s.sleep(ctx, 5*time.Millisecond); err != nil {
			return successor{}, err
		}
	}
	return successor{}, errors.New("no coordinator leads 30 s after the leader was killed")
}

// revive starts the killed coordinator again and waits until it has caught up.
func (s *story) revive(ctx context.Context, dead devcluster.CoordinatorInfo) error {
	began := time.Now()
	if err := s.cluster.revive(dead); err != nil {
		return err
	}
	for time.Since(began) < 30*time.Second {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dead.HTTPAddr+"/health/ready", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(req); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				s.say("%s is started again, and has caught up %s later", dead.ID, took(time.Since(began)))
				return nil
			}
		}
		if err := s.sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s was started again and is not ready after 30 s", dead.ID)
}
