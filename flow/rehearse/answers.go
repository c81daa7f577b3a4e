package rehearse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

// Answers are recorded results of steps.
type Answers struct {
	steps map[string]*recorded
}

// recorded has the answers of one step.
type recorded struct {
	// list says that there is one answer for each time that the step asks; otherwise the one answer is for every time.
	list    bool
	answers []answer
	used    int
}

// answer is the result of one wait.
type answer struct {
	value any
	err   *machine.Error
	// after is how long it takes; timeout: it never comes.
	after   time.Duration
	timeout bool
}

// ParseAnswers reads answers: a JSON object with the results of steps by their paths. An element of a list is the answer
// for one time that the step asks.
func ParseAnswers(data []byte) (*Answers, error) {
	plain, err := ParseValue(data)
	if err != nil {
		return nil, err
	}
	object, ok := plain.(map[string]any)
	if !ok {
		return nil, errors.New(`answers have to be an object, such as {"train": {"status": "COMPLETED"}}`)
	}
	a := &Answers{steps: map[string]*recorded{}}
	for _, step := range slices.Sorted(maps.Keys(object)) {
		r := &recorded{}
		elements, list := object[step].([]any)
		if r.list = list; !list {
			elements = []any{object[step]}
		}
		for i, e := range elements {
			one, err := parseAnswer(e)
			if err != nil && list {
				err = fmt.Errorf("answer %d of it: %w", i+1, err)
			}
			if err != nil {
				return nil, fmt.Errorf("the answers for %s: %w", step, err)
			}
			r.answers = append(r.answers, one)
		}
		a.steps[step] = r
	}
	return a, nil
}

// ParseValue reads JSON as a value of expressions.
func ParseValue(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("this is no JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("this is no JSON: there is more after its end")
	}
	return expr.Normalize(plain)
}

// parseAnswer tells a result from its wrappers: {"error": {...}}, {"after": "2h", "result": ...} and {"timeout": true}.
func parseAnswer(plain any) (answer, error) {
	object, ok := plain.(map[string]any)
	if !ok || !wraps(object) {
		return answer{value: plain}, nil
	}
	if _, ok := object["timeout"]; ok {
		return answer{timeout: true}, nil
	}
	a := answer{value: object["result"]}
	if text, ok := object["after"]; ok {
		span, err := ir.ParseDuration(fmt.Sprint(text))
		if err != nil {
			return a, fmt.Errorf("after: %w", err)
		}
		a.after = span
	}
	if failure, ok := object["error"]; ok {
		fields, _ := failure.(map[string]any)
		a.err = &machine.Error{}
		a.err.Code, _ = fields["code"].(string)
		a.err.Message, _ = fields["message"].(string)
		a.err.Retryable, _ = fields["retryable"].(bool)
		if a.err.Code == "" {
			return a, errors.New(`an error has a code: {"error": {"code": "OOM", "message": "...", "retryable": true}}`)
		}
	}
	return a, nil
}

// wraps says whether an object is one of the wrappers. A result that looks like one is written as the result of one.
func wraps(object map[string]any) bool {
	if object["timeout"] == true {
		return len(object) == 1
	}
	known := 0
	for _, key := range []string{"error", "after", "result"} {
		if _, ok := object[key]; ok {
			known++
		}
	}
	_, late := object["after"]
	_, failure := object["error"]
	_, result := object["result"]
	return known == len(object) && (late || failure) && !(failure && result)
}

// label matches the iterations of a path.
var label = regexp.MustCompile(`(\[\d+\])+`)

// find returns the answers for a step: those of its path, else those of its path without iterations.
func (a *Answers) find(path string) (name string, _ *recorded) {
	if a == nil {
		return "", nil
	}
	for _, name := range []string{path, label.ReplaceAllString(path, "")} {
		if r := a.steps[name]; r != nil {
			return name, r
		}
	}
	return "", nil
}

// next takes the answer for a step that asks.
func (a *Answers) next(path string) (answer, bool) {
	_, r := a.find(path)
	if r == nil || r.list && r.used >= len(r.answers) {
		return answer{}, false
	}
	r.used++
	if !r.list {
		return r.answers[0], true
	}
	return r.answers[r.used-1], true
}

// Unused lists the steps whose answers were not all taken.
func (a *Answers) Unused() []string {
	var names []string
	if a == nil {
		return nil
	}
	for _, step := range slices.Sorted(maps.Keys(a.steps)) {
		if r := a.steps[step]; r.used == 0 || r.list && r.used < len(r.answers) {
			names = append(names, step)
		}
	}
	return names
}

// failureMark ends the path of the question about a failure.
const failureMark = ":failure"

// Check says which answers are for a step that no flow of a program has.
func (a *Answers) Check(m *ir.Module) error {
	if a == nil {
		return nil
	}
	ids := map[string]bool{}
	for i := range m.Flows {
		m.Flows[i].Walk("", func(_ string, b *ir.Block) { ids[b.ID] = true })
	}
	for _, step := range slices.Sorted(maps.Keys(a.steps)) {
		path := label.ReplaceAllString(strings.TrimSuffix(step, failureMark), "")
		for id := range strings.SplitSeq(path, "/") {
			if !ids[id] {
				return fmt.Errorf("the answers have %q, and no flow of the program has a step %q; its steps are %s",
					step, id, strings.Join(slices.Sorted(maps.Keys(ids)), ", "))
			}
		}
	}
	return nil
}
