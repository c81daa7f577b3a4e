package rehearse

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/flow/machine"
)

// Missing says that a step waits for a result that the answers do not have.
type Missing struct {
	// Step is its path.
	Step string
	// For names what it waits for.
	For string
	// Line is an example of what to add to the answers.
	Line string
	// Taken is how many answers the step has had.
	Taken int
	// Options are the answers that a decision allows; none: any.
	Options []machine.Option
	// Decision says that the answer is one to a question to people.
	Decision bool
	// Problem is why the last answer to a question of Options.Ask was refused.
	Problem string
}

func (m *Missing) Error() string {
	none := "the answers have none for it"
	if m.Taken > 0 {
		none = fmt.Sprintf("the answers have only %d for it, and it asks once more", m.Taken)
	}
	return fmt.Sprintf("the step %s waits for %s, and %s: add %s", m.Step, m.For, none, m.Line)
}

func (r *rehearsal) missing(p *pending) *Missing {
	m := &Missing{Step: p.path}
	example := any(map[string]any{})
	switch e := p.effect; e.Kind {
	case machine.Job:
		m.For, example = jobOf(&e)
	case machine.Ask:
		m.Decision, m.Options = true, e.Question.Options
		m.For = fmt.Sprintf("a decision (%s)", e.Question.Prompt)
		resolution := "approve"
		if ids := optionIDs(e.Question); len(ids) > 0 {
			m.For, resolution = fmt.Sprintf("a decision (%s %s)", e.Question.Prompt, strings.Join(ids, " or ")), ids[0]
		}
		example = map[string]any{"resolution": resolution}
	case machine.Event:
		m.For = fmt.Sprintf("the event %q", e.Name)
	case machine.Call:
		m.For = fmt.Sprintf("a call of the Core %s", e.Target)
	}
	name, known := r.o.Answers.find(p.path)
	if known != nil {
		m.Taken = len(known.answers)
	} else {
		name = p.path
	}
	text, err := json.Marshal(example)
	if err != nil {
		text = []byte("{}")
	}
	m.Line = fmt.Sprintf("%q: %s", name, text)
	if m.Taken > 0 {
		m.Line = fmt.Sprintf("%s to the list of %q", text, name)
	}
	return m
}

func jobOf(e *machine.Effect) (what string, example any) {
	switch {
	case e.Action == "evaluate":
		return "the end of an evaluation", map[string]any{"evaluation_id": "eval_1", "status": "COMPLETED", "results": []any{}}
	case e.Until == "start":
		return fmt.Sprintf("the start of a job (%s)", e.Action), map[string]any{"job_id": "job_1", "status": "TRAINING"}
	case e.Until == "none":
		return fmt.Sprintf("the submission of a job (%s)", e.Action), map[string]any{"job_id": "job_1", "status": "PENDING"}
	}
	return fmt.Sprintf("the end of a job (%s)", e.Action), map[string]any{"job_id": "job_1", "status": "COMPLETED"}
}

func optionIDs(q *machine.Question) []string {
	ids := make([]string, 0, len(q.Options))
	for _, o := range q.Options {
		ids = append(ids, o.ID)
	}
	return ids
}

// refuse says why a value is no answer to a question, or "".
func refuse(q *machine.Question, v any) string {
	object, _ := v.(map[string]any)
	resolution, given := object["resolution"]
	if !given {
		return `the answer to a decision is an object with a resolution, such as {"resolution": "approve"}`
	}
	ids := optionIDs(q)
	if len(ids) == 0 {
		return ""
	}
	for _, id := range ids {
		if id == resolution {
			return ""
		}
	}
	return fmt.Sprintf("the resolution %v is no option of it: %s", resolution, strings.Join(ids, ", "))
}
