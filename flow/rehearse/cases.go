package rehearse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/ir"
)

const (
	// MaxCases is how many cases one call runs.
	MaxCases = 100
	// maxShown is how many steps of a case are shown.
	maxShown = 200
)

// Case is a test of a flow: a rehearsal, and how it has to end.
type Case struct {
	Name string `json:"name"`
	// Flow is the name of the flow; "": the first one.
	Flow    string          `json:"flow,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Answers json.RawMessage `json:"answers,omitempty"`
	Expect  Expectation     `json:"expect"`
}

// Expectation is how a case has to end. A field that is left out may have any value; without a status it has to be completed, unless an
// error is expected.
type Expectation struct {
	Status    string          `json:"status,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	ErrorCode string          `json:"error_code,omitempty"`
}

// Report has the results of cases.
type Report struct {
	Passed  int          `json:"passed"`
	Failed  int          `json:"failed"`
	Results []CaseResult `json:"results"`
}

// CaseResult is how a case ended.
type CaseResult struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Message says why it has not passed.
	Message string  `json:"message"`
	Status  string  `json:"status"`
	Output  any     `json:"output"`
	Steps   []*Step `json:"steps"`
}

// ParseCases reads cases: a JSON list.
func ParseCases(data []byte) ([]Case, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("tests have to be a list: %w", err)
	}
	if len(raw) > MaxCases {
		return nil, fmt.Errorf("there are %d tests, and at most %d are run: split the flow", len(raw), MaxCases)
	}
	cases := make([]Case, len(raw))
	for i := range raw {
		d := json.NewDecoder(strings.NewReader(string(raw[i])))
		d.DisallowUnknownFields()
		if err := d.Decode(&cases[i]); err != nil {
			return nil, fmt.Errorf("test %d is not valid: %w", i+1, err)
		}
		if cases[i].Name == "" {
			cases[i].Name = fmt.Sprintf("test %d", i+1)
		}
	}
	return cases, nil
}

// RunCases runs the cases of a program without errors, one after the other, until the context is over: the one that runs then has not
// passed, and neither have the rest. An advance of a flow, which the limits bound, is not interrupted.
func RunCases(ctx context.Context, m *ir.Module, cases []Case, now time.Time) Report {
	report := Report{Results: []CaseResult{}}
	for i := range cases {
		result := CaseResult{Name: cases[i].Name, Steps: []*Step{}}
		if ctx.Err() != nil {
			result.Message = "it was not run: the tests before it have taken all of the time"
		} else if err := cases[i].run(ctx, m, now, &result); err != nil {
			result.Message = err.Error()
		}
		if result.Passed = result.Message == ""; result.Passed {
			report.Passed++
		} else {
			report.Failed++
		}
		report.Results = append(report.Results, result)
	}
	return report
}

// run runs a case. The error says why it has not passed.
func (c *Case) run(ctx context.Context, m *ir.Module, now time.Time, result *CaseResult) error {
	value := func(raw json.RawMessage, otherwise string) (any, error) {
		if len(raw) == 0 {
			raw = json.RawMessage(otherwise)
		}
		return ParseValue(raw)
	}
	input, err := value(c.Input, "{}")
	if err != nil {
		return fmt.Errorf("its input: %w", err)
	}
	recorded := c.Answers
	if len(recorded) == 0 {
		recorded = json.RawMessage("{}")
	}
	answers, err := ParseAnswers(recorded)
	if err != nil {
		return fmt.Errorf("its answers: %w", err)
	}
	if _, ok := m.Flow(c.Flow); !ok {
		return fmt.Errorf("the program has no flow %q", c.Flow)
	}
	outcome, err := Flow(m, Options{Flow: c.Flow, Input: input, Answers: answers, Now: now, Stop: ctx.Err})
	if outcome != nil {
		result.Status, result.Output = outcome.Status, outcome.Output
		result.Steps = outcome.Steps[:min(len(outcome.Steps), maxShown)]
	}
	var missing *Missing
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("it was stopped: the tests have taken all of the time, with a flow that goes on and on, or too many of them")
	case errors.As(err, &missing):
		return fmt.Errorf("the step %s has no answer: add %s to the answers", missing.Step, missing.Line)
	case err != nil:
		return err
	}
	return c.Expect.check(outcome)
}

// check says how an outcome differs from what was expected.
func (e *Expectation) check(o *Outcome) error {
	status := e.Status
	switch {
	case status == "" && e.ErrorCode != "":
		status = "failed"
	case status == "":
		status = "completed"
	}
	code, why := "", ""
	if o.Error != nil {
		code, why = o.Error.Code, ": "+o.Error.Error()
	}
	if o.Status != status {
		return fmt.Errorf("it is %s, and %s was expected%s", o.Status, status, why)
	}
	if e.ErrorCode != "" && e.ErrorCode != code {
		return fmt.Errorf("its error is %s, and %s was expected%s", code, e.ErrorCode, why)
	}
	if len(e.Output) == 0 {
		return nil
	}
	want, err := ParseValue(e.Output)
	if err != nil {
		return fmt.Errorf("the output that is expected: %w", err)
	}
	if !expr.Equal(want, o.Output) {
		got, err := json.Marshal(o.Output)
		if err != nil {
			return fmt.Errorf("writing its output: %w", err)
		}
		return fmt.Errorf("its output is %s, and %s was expected", got, e.Output)
	}
	return nil
}
