package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/mindcoordinator/mind/examples/stage"
)

// verify checks every claim. If a claim does not hold, it returns an error that says what it found.
func (s *story) verify(ctx context.Context) error {
	var err error
	s.verified, err = s.Verify(ctx, []stage.Claim{
		{About: "execution", Check: s.completed},
		{About: "jobs", Check: s.everyJobOnce},
		{About: "log", Check: func(ctx context.Context) (string, error) { return s.watch.EveryLineOnce(ctx, s.Steps) }},
		{About: "question", Check: s.askedOnce},
		{About: "events", Check: s.everyBlockOnce},
		{About: "calls", Check: s.everyCallOnce},
		{About: "nodes", Check: func(ctx context.Context) (string, error) { return stage.EverythingFree(ctx, s.REST) }},
	})
	return err
}

// completed checks the output of the execution. Its score has to be the one that the training itself has reported of its model.
func (s *story) completed(ctx context.Context) (string, error) {
	e, err := s.until(ctx, "it is over", (*execution).over)
	if err != nil {
		return "", err
	}
	return outcome(&e, s.training, s.watch.HeldOut, s.question.ResolvedBy)
}

func outcome(e *execution, training string, score float64, by string) (string, error) {
	if by == "" {
		return "", errors.New("nobody is known to have answered")
	}
	want := map[string]any{"published": true, "job_id": training, "score": score, "by": by}
	if e.Status != "completed" || !reflect.DeepEqual(e.Output, any(want)) {
		return "", fmt.Errorf("%s is %s with the output %v (%s %s): wanted completed with %v", e.ID, e.Status, e.Output, e.Error.Code, e.Error.Message, want)
	}
	text, err := json.Marshal(want)
	return fmt.Sprintf("%s is completed: %s", e.ID, text), err
}

// everyJobOnce checks that the cluster has the two jobs of the execution and no other, each run once.
func (s *story) everyJobOnce(ctx context.Context) (string, error) {
	var got struct {
		Jobs []stage.Job `json:"jobs"`
	}
	if err := s.REST.Get(ctx, "/jobs?page_size=100", &got); err != nil {
		return "", err
	}
	return twoJobs(got.Jobs, s.execution, s.training)
}

func twoJobs(jobs []stage.Job, execution, training string) (string, error) {
	steps := map[string]int{}
	for _, j := range jobs {
		switch {
		case j.Labels["execution"] != execution:
			return "", fmt.Errorf("%s (%s) is not of the execution", j.ID, j.Name)
		case j.Status != "COMPLETED" || j.Attempt != 1 || j.ExitCode == nil || *j.ExitCode != 0:
			return "", fmt.Errorf("%s (%s) is %s in attempt %d: it should have run once, to exit code 0", j.ID, j.Name, j.Status, j.Attempt)
		case (j.ID == training) != (j.Labels["step"] == "train"):
			return "", fmt.Errorf("%s is of the step %s, and the execution trained %s", j.ID, j.Labels["step"], training)
		}
		steps[j.Labels["step"]]++
	}
	if want := map[string]int{"train": 1, "evaluate": 1}; !reflect.DeepEqual(steps, want) {
		return "", fmt.Errorf("the jobs by steps are %v: wanted %v", steps, want)
	}
	return "it submitted one training and one evaluation, each with one attempt", nil
}

// askedOnce checks that there is one question with one answer, and that nobody can answer again.
func (s *story) askedOnce(ctx context.Context) (string, error) {
	var got struct {
		Checkpoints []decision `json:"checkpoints"`
	}
	if err := s.REST.Get(ctx, api+"/checkpoints?status=all", &got); err != nil {
		return "", err
	}
	said, err := oneAnswer(got.Checkpoints, s.question.ID, s.execution)
	if err != nil {
		return "", err
	}
	var refused *stage.Error
	if err := s.answer(ctx, "keep", nil); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		return "", fmt.Errorf("a second answer should be refused with 409, and is not: %w", err)
	}
	return said + ", and a second answer is refused", nil
}

func oneAnswer(all []decision, id, execution string) (string, error) {
	if len(all) != 1 {
		return "", fmt.Errorf("%d questions were asked: %v", len(all), all)
	}
	d := all[0]
	if d.ID != id || d.Execution != execution || d.Status != "resolved" || d.Resolution != "publish" || len(d.Votes) != 1 || d.Votes[0].Resolution != "publish" {
		return "", fmt.Errorf("the question is %+v: wanted %s of %s, resolved once, publish", d, id, execution)
	}
	return "one question was asked and answered once", nil
}

// everyBlockOnce checks that each block of the flow ran once, and that the model was published once.
func (s *story) everyBlockOnce(ctx context.Context) (string, error) {
	events, err := s.happened(ctx)
	if err != nil {
		return "", err
	}
	return blocks(events)
}

// begins has the blocks that the flow runs, in the order of their beginnings.
var begins = []string{"train", "evaluate", "score", "good", "ask", "publish"}

// runs begins the types of the events that every execution has.
const runs = "scaicore.runtime."

func blocks(newestFirst []happening) (string, error) {
	var entered []string
	count := map[string]int{}
	for _, e := range slices.Backward(newestFirst) {
		count[e.Type]++
		if e.Type == runs+"block.entered" {
			entered = append(entered, e.Payload.Step)
		}
	}
	if !slices.Equal(entered, begins) {
		return "", fmt.Errorf("the blocks began in the order %v: wanted %v", entered, begins)
	}
	for _, once := range []string{"model.published", runs + "invocation.started", runs + "invocation.completed"} {
		if count[once] != 1 {
			return "", fmt.Errorf("the event %s happened %d times: %v", once, count[once], count)
		}
	}
	for _, never := range []string{runs + "block.failed", runs + "block.retrying", runs + "invocation.failed"} {
		if count[never] != 0 {
			return "", fmt.Errorf("the event %s happened: %v", never, count)
		}
	}
	return fmt.Sprintf("each of its %d blocks began once, and model.published was emitted once", len(begins)), nil
}

// everyCallOnce checks that each call has one execution, which is completed.
func (s *story) everyCallOnce(ctx context.Context) (string, error) {
	var got struct {
		Executions []execution `json:"executions"`
	}
	if err := s.REST.Get(ctx, api+"/executions?limit=500", &got); err != nil {
		return "", err
	}
	for _, e := range got.Executions {
		if e.Status != "completed" {
			return "", fmt.Errorf("%s of the flow %s is %s", e.ID, e.Flow, e.Status)
		}
	}
	if len(got.Executions) != s.calls+1 {
		return "", fmt.Errorf("there are %d executions, of %d calls", len(got.Executions), s.calls+1)
	}
	return fmt.Sprintf("%d flows were called, and each ran once", s.calls+1), nil
}
