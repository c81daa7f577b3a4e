package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
)

// registers are the ledger's records of other objects than jobs: checkpoints, GPUs, limits and tokens. They are guarded
// by its lock.
type registers struct {
	// checkpoints are the checkpoints that were listed so far, by id.
	checkpoints map[string]Checkpoint
	// gpus are the GPUs that were made to fail, by UUID.
	gpus map[string]*brokenGPU
	// limitKept and limitSent are the limit of the queue that was last acknowledged, and last sent.
	limitKept, limitSent int
	// tokens are valid tokens, revoked are revoked ones; a token whose revocation had no answer is in neither.
	tokens, revoked map[string]string // secret -> id
}

func newRegisters() registers {
	return registers{
		checkpoints: map[string]Checkpoint{}, gpus: map[string]*brokenGPU{},
		tokens: map[string]string{}, revoked: map[string]string{},
	}
}

// Checkpoint is a registered checkpoint.
type Checkpoint struct {
	ID      string `json:"checkpoint_id"`
	JobID   string `json:"job_id"`
	Attempt int    `json:"attempt"`
	Step    int    `json:"step"`
	Path    string `json:"path"`
	Digest  string `json:"manifest_digest"`
	Size    int64  `json:"size_bytes"`
}

// ReadCheckpoints lists the checkpoints of a job. Checkpoints that were listed before must be in the list, and
// unchanged.
func (l *Ledger) ReadCheckpoints(ctx context.Context, rest *procs.REST, job string) error {
	l.mu.Lock()
	before := map[string]Checkpoint{}
	for id, c := range l.registers.checkpoints {
		if c.JobID == job {
			before[id] = c
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var answer struct {
		Checkpoints []Checkpoint `json:"checkpoints"`
	}
	if err := rest.Get(ctx, "/jobs/"+job+"/checkpoints", &answer); err != nil {
		return err
	}
	now := map[string]Checkpoint{}
	for _, c := range answer.Checkpoints {
		now[c.ID] = c
	}
	for id, c := range before {
		switch other, ok := now[id]; {
		case !ok:
			l.result.Break(result.Missing, "checkpoint %s of %s (attempt %d, step %d) is not registered any more", id, job, c.Attempt, c.Step)
		case other != c:
			l.result.Break(result.Changed, "checkpoint %s was %+v, and is %+v", id, c, other)
		}
	}
	news := 0
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, c := range now {
		if _, ok := l.registers.checkpoints[id]; !ok {
			l.registers.checkpoints[id] = c
			news++
		}
	}
	l.result.Count("checkpoints", news)
	if news > 0 {
		l.told(Registered)
	}
	return nil
}

// Listed returns the checkpoints that were listed so far.
func (l *Ledger) Listed() []Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Checkpoint
	for _, c := range l.registers.checkpoints {
		all = append(all, c)
	}
	return all
}

// limited is the queue whose limit is set repeatedly.
const limited = "limited"

// SetLimit sets the limit of a queue to the next number.
func (l *Ledger) SetLimit(ctx context.Context, rest *procs.REST) {
	l.mu.Lock()
	l.registers.limitSent++
	limit := l.registers.limitSent
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if rest.Do(ctx, http.MethodPut, "/queues/"+limited, nil, map[string]any{"max_gpus": limit}, nil) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registers.limitKept = max(l.registers.limitKept, limit)
	l.result.Count("limits", 1)
}

// CheckLimit compares the limit of the queue with the acknowledged one. The limit must not be set meanwhile.
func (l *Ledger) CheckLimit(ctx context.Context, rest *procs.REST) error {
	l.mu.Lock()
	kept, sent := l.registers.limitKept, l.registers.limitSent
	l.mu.Unlock()
	if kept == 0 {
		return nil
	}
	var answer struct {
		Queues []struct {
			Name  string `json:"name"`
			Limit int    `json:"max_gpus"`
		} `json:"queues"`
	}
	if err := rest.Get(ctx, "/queues", &answer); err != nil {
		return err
	}
	for _, q := range answer.Queues {
		if q.Name == limited {
			if q.Limit < kept || q.Limit > sent {
				l.result.Break(result.WentBack, "queue %s has the limit %d, acknowledged was %d and sent %d", limited, q.Limit, kept, sent)
			}
			return nil
		}
	}
	l.result.Break(result.Missing, "queue %s is not there, acknowledged was the limit %d", limited, kept)
	return nil
}

// Tokens makes a token and revokes an earlier one.
func (l *Ledger) Tokens(ctx context.Context, rest *procs.REST) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var made struct {
		ID    string `json:"token_id"`
		Token string `json:"token"`
	}
	l.mu.Lock()
	var secret, id string
	for secret, id = range l.registers.tokens {
		break
	}
	l.mu.Unlock()
	err := rest.Do(ctx, http.MethodPost, "/tokens", nil, map[string]any{"name": "kept", "permissions": []string{"scaimind:view"}}, &made)
	if err != nil {
		return
	}
	l.mu.Lock()
	l.registers.tokens[made.Token] = made.ID
	delete(l.registers.tokens, secret)
	l.mu.Unlock()
	l.result.Count("tokens", 1)
	if id == "" {
		return
	}
	if rest.Do(ctx, http.MethodDelete, "/tokens/"+id, nil, nil, nil) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registers.revoked[secret] = id
}

// CheckTokens tries every token.
func (l *Ledger) CheckTokens(ctx context.Context, rest *procs.REST) error {
	l.mu.Lock()
	all := map[string]bool{}
	for secret := range l.registers.tokens {
		all[secret] = true
	}
	for secret := range l.registers.revoked {
		all[secret] = false
	}
	l.mu.Unlock()
	for secret, valid := range all {
		var refused *procs.Error
		err := tryToken(ctx, *rest, secret)
		switch {
		case err == nil && !valid:
			l.result.Break(result.WentBack, "a token that was revoked is valid")
		case errors.As(err, &refused) && refused.HTTP == http.StatusUnauthorized:
			if valid {
				l.result.Break(result.Missing, "a token that was made is not known: %v", err)
			}
		case err != nil:
			return fmt.Errorf("trying a token: %w", err)
		}
	}
	return nil
}

// guessPause is how long the gateway tells callers to wait after many unknown tokens.
const guessPause = time.Second

// tryToken uses a token, and tries again if the gateway has refused it because of too many unknown tokens.
func tryToken(ctx context.Context, rest procs.REST, secret string) error {
	rest.Token = secret
	for {
		err := rest.Get(ctx, "/v1/me", &json.RawMessage{})
		var refused *procs.Error
		if !errors.As(err, &refused) || refused.HTTP != http.StatusTooManyRequests {
			return err
		}
		select {
		case <-time.After(guessPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
