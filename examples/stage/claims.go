package stage

import (
	"context"
	"fmt"
	"slices"
)

// logEvery is the number of steps between two loss lines of charlm.
const logEvery = 10

// Claim is one that a story makes. Check returns what it found, or why the claim does not hold.
type Claim struct {
	About string
	Check func(context.Context) (string, error)
}

// Verify checks every claim, and prints and returns what was found.
func (t *Teller) Verify(ctx context.Context, claims []Claim) (verified []string, err error) {
	for _, claim := range claims {
		found, err := claim.Check(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", claim.About, err)
		}
		t.Say("ok: %s", found)
		verified = append(verified, "ok: "+found)
	}
	return verified, nil
}

// EveryLineOnce compares the steps that the training must have printed with those that were streamed over the failover,
// and with those in the stored log.
func (w *Watch) EveryLineOnce(ctx context.Context, steps int) (string, error) {
	var want []int
	for step := logEvery; step <= steps; step += logEvery {
		want = append(want, step)
	}
	if got := stepsOf(w.Lines); !slices.Equal(got, want) {
		return "", fmt.Errorf("the stream delivered steps %v: there is a gap or a repeat", got)
	}
	var stored []Line
	err := w.rest.Stream(ctx, "/jobs/"+w.job+"/logs?follow=false", func(e Event) error {
		l, ok, err := lossLine(e.Data)
		if ok {
			stored = append(stored, l)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if got := stepsOf(stored); !slices.Equal(got, want) {
		return "", fmt.Errorf("the stored log has steps %v: there is a gap or a repeat", got)
	}
	return fmt.Sprintf("the log was streamed through the failover: %d numbered lines, no gap, no repeat", len(want)), nil
}

func stepsOf(lines []Line) (steps []int) {
	for _, l := range lines {
		steps = append(steps, l.Step)
	}
	return steps
}

// EverythingFree checks that both nodes are ready and that no GPU is leased.
func EverythingFree(ctx context.Context, r *REST) (string, error) {
	var got struct {
		Nodes []struct {
			ID    string `json:"node_id"`
			State string `json:"state"`
			GPUs  []any  `json:"gpus"`
			Free  int    `json:"gpus_free"`
			Tasks int    `json:"tasks"`
		} `json:"nodes"`
	}
	if err := r.Get(ctx, "/cluster/nodes", &got); err != nil {
		return "", err
	}
	gpus := 0
	for _, n := range got.Nodes {
		if n.State != "READY" || n.Free != len(n.GPUs) || n.Tasks != 0 {
			return "", fmt.Errorf("%s is %s with %d of %d GPUs free and %d tasks", n.ID, n.State, n.Free, len(n.GPUs), n.Tasks)
		}
		gpus += n.Free
	}
	if gpus != 16 {
		return "", fmt.Errorf("%d GPUs are there, of 16", gpus)
	}
	return fmt.Sprintf("both nodes are ready, all %d GPUs are free again", gpus), nil
}
