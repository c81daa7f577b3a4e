package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// permissions lists the permissions of ScaiMind and of ScaiCore.
var permissions = []string{
	"scaimind:view", "scaimind:manage", "scaimind:cluster_admin", "scaimind:evaluate",
	"scaicore:view", "scaicore:manage", "scaicore:debug", "scaicore:checkpoint_resolve", "scaicore:delegate", "scaicore:admin",
}

// party is one tenant of the suite, with its tokens and objects.
type party struct {
	target Target
	tenant string
	all    string            // a token with all permissions
	only   map[string]string // tokens with one permission, by the permission

	job, checkpoint string // a job that succeeded and registered a checkpoint
	node            string
	evaluation      string
	token           string // the id of the token in all
	started         []string

	core, execution, decision string // a Core that runs, and an execution of it that waits for a decision
	cores                     []string
	flows                     []string
	// guest is a token of another user of the tenant, with all permissions but those of administrators.
	guest string
}

// guest is the user of the token guest.
const guest = "guest"

// newParty makes a tenant with tokens, a finished job and a checkpoint.
func newParty(ctx context.Context, t Target, evaluations bool) (*party, error) {
	p := &party{target: t, tenant: "conformance-" + strings.ToLower(rand.Text()[:8]), only: map[string]string{}}
	var err error
	if p.all, p.token, err = p.newToken(ctx, "conformance", permissions); err != nil {
		return nil, err
	}
	if p.guest, _, err = p.newToken(ctx, guest, []string{"scaicore:view", "scaicore:manage"}); err != nil {
		return nil, err
	}
	for _, permission := range permissions {
		if p.only[permission], _, err = p.newToken(ctx, "conformance", []string{permission}); err != nil {
			return nil, err
		}
	}
	if p.job, err = p.submit(ctx, `d="$MIND_CHECKPOINT_DIR/.part" && mkdir -p "$d" && echo state > "$d/model" && mv "$d" "$MIND_CHECKPOINT_DIR/checkpoint-1"`); err != nil {
		return nil, err
	}
	if err := p.await(ctx, p.job, "COMPLETED"); err != nil {
		return nil, err
	}
	err = poll(ctx, "a checkpoint of "+p.job, func() (bool, error) {
		var list struct {
			Checkpoints []struct {
				ID string `json:"checkpoint_id"`
			}
		}
		err := p.get(ctx, "/jobs/"+p.job+"/checkpoints", &list)
		if err == nil && len(list.Checkpoints) > 0 {
			p.checkpoint = list.Checkpoints[0].ID
		}
		return p.checkpoint != "", err
	})
	if err != nil {
		return nil, err
	}
	var nodes struct {
		Nodes []struct {
			ID string `json:"node_id"`
		}
	}
	if err := p.get(ctx, "/nodes", &nodes); err != nil {
		return nil, err
	}
	if len(nodes.Nodes) == 0 {
		return nil, errors.New("the cluster has no node")
	}
	p.node = nodes.Nodes[0].ID
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	if !evaluations {
		return p, nil
	}
	var evaluation struct {
		ID string `json:"evaluation_id"`
	}
	err = t.must(ctx, request{method: "POST", path: prefix + "/evaluations", token: p.all, body: p.evaluationBody()}, 201, &evaluation)
	p.evaluation = evaluation.ID
	return p, err
}

// evaluationBody returns the body of an evaluation without GPUs, which can run on any node.
func (p *party) evaluationBody() map[string]any {
	return map[string]any{"job_id": p.job, "benchmarks": []any{map[string]any{"name": "mmlu", "num_samples": 10}}}
}

func (p *party) newToken(ctx context.Context, user string, may []string) (token, id string, err error) {
	var made struct {
		Token string `json:"token"`
		ID    string `json:"token_id"`
	}
	err = p.target.must(ctx, request{method: "POST", path: prefix + "/tokens", token: p.target.Token, body: map[string]any{
		"tenant_id": p.tenant, "user_id": user, "name": "conformance", "permissions": may, "expires_in_seconds": 3600,
	}}, 201, &made)
	return made.Token, made.ID, err
}

func (p *party) get(ctx context.Context, path string, out any) error {
	return p.target.must(ctx, request{method: "GET", path: prefix + path, token: p.all}, 200, out)
}

// secret is the value of a variable in every job of the suite.
const secret = "for-those-who-manage-jobs"

// shellJob returns a job that runs a shell script, without a GPU.
func shellJob(script string) map[string]any {
	return map[string]any{
		"name":            "conformance",
		"command_config":  map[string]any{"command": script, "cwd": "/", "environment": map[string]any{"CONFORMANCE_SECRET": secret}},
		"resource_config": map[string]any{"gpu_count": 0, "cpu_count": 1},
	}
}

func (p *party) submit(ctx context.Context, script string) (string, error) {
	var made struct {
		ID string `json:"job_id"`
	}
	err := p.target.must(ctx, request{method: "POST", path: prefix + "/jobs", token: p.all, body: shellJob(script)}, 201, &made)
	if err == nil {
		p.started = append(p.started, made.ID)
	}
	return made.ID, err
}

// await waits until a job has a status, and fails if the job ends with another one.
func (p *party) await(ctx context.Context, job, status string) error {
	return poll(ctx, job+" to be "+status, func() (bool, error) {
		var j struct {
			Status  string `json:"status"`
			Message string `json:"error_message"`
		}
		if err := p.get(ctx, "/jobs/"+job, &j); err != nil {
			return false, err
		}
		if j.Status != status && slices.Contains([]string{"COMPLETED", "FAILED", "CANCELLED", "PREEMPTED"}, j.Status) {
			return false, fmt.Errorf("%s is %s instead of %s: %s", job, j.Status, status, j.Message)
		}
		return j.Status == status, nil
	})
}

// running submits a job that runs until it is stopped, waits until it runs, and returns its id.
func (p *party) running(ctx context.Context) (string, error) {
	id, err := p.submit(ctx, "exec sleep 3600")
	if err != nil {
		return "", err
	}
	return id, p.await(ctx, id, "TRAINING")
}

// leave stops the jobs that the party started, and deletes its Cores.
func (p *party) leave(ctx context.Context) error {
	faults := []error{p.leaveCores(ctx), p.leaveFlows(ctx)}
	for _, id := range p.started {
		a, err := p.target.do(ctx, request{method: "POST", path: prefix + "/jobs/" + id + "/cancel", token: p.all})
		if err == nil && a.code != 200 && a.code != 409 {
			err = fmt.Errorf("canceling %s: HTTP %d: %s", id, a.code, clip(a.raw))
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
