package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// Limits of a gate. The coordinators have the same.
const (
	maxGates       = 64
	maxGatePrompt  = 2048
	maxGateOptions = 32
	maxGateLabel   = 256
	maxGateContext = 8 << 10
	maxGateDepth   = 64
	maxGateVotes   = 256
	minGateTimeout = time.Second
)

// defaultGate is the name of a gate that the program does not name.
const defaultGate = "gate"

// gateEvent says that people are to decide whether the job goes on.
type gateEvent struct {
	Name      string          `json:"name"`
	Prompt    string          `json:"prompt"`
	Options   []gateOption    `json:"options"`
	Context   json.RawMessage `json:"context"`
	Assignee  string          `json:"assignee"`
	Priority  string          `json:"priority"`
	Timeout   string          `json:"timeout"`
	OnTimeout string          `json:"on_timeout"`
	Quorum    struct {
		Needed int32 `json:"needed"`
		Of     int32 `json:"of"`
	} `json:"quorum"`
}

// gateOption is an answer: an object, or its id alone. The answer "cancel" cancels the job unless the option says otherwise.
type gateOption struct {
	ID      string
	Label   string
	Cancels bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *gateOption) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &o.ID) == nil {
		o.Cancels = o.ID == cancelOption
		return nil
	}
	var full struct {
		ID      string `json:"id"`
		Label   string `json:"label"`
		Cancels *bool  `json:"cancels"`
	}
	if err := json.Unmarshal(text, &full); err != nil {
		return errors.New("an option is an id, or an object with id, label and cancels")
	}
	o.ID, o.Label, o.Cancels = full.ID, full.Label, full.ID == cancelOption
	if full.Cancels != nil {
		o.Cancels = *full.Cancels
	}
	return nil
}

const cancelOption = "cancel"

// gate makes a report from a line about a gate. The error is for the user: the job goes on as if there were no gate.
func gate(line []byte) (*v1.GateReport, error) {
	var e gateEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if e.Name == "" {
		e.Name = defaultGate
	}
	if len(e.Options) == 0 {
		e.Options = []gateOption{{ID: "continue", Label: "Go on"}, {ID: cancelOption, Label: "Cancel the job", Cancels: true}}
	}
	report := &v1.GateReport{
		Name: e.Name, Prompt: e.Prompt, Assignee: e.Assignee, Priority: e.Priority, OnTimeout: e.OnTimeout, Needed: e.Quorum.Needed, Of: e.Quorum.Of,
	}
	switch {
	case !status.ValidGateWord(e.Name):
		return nil, fmt.Errorf("has the name %.64q: letters, digits, '.', '-' and '_' are allowed, at most %d of them", e.Name, status.MaxGateWord)
	case e.Prompt == "":
		return nil, errors.New("asks nothing: prompt is missing")
	case len(e.Prompt) > maxGatePrompt:
		return nil, fmt.Errorf("has a prompt of %d bytes: at most %d are allowed", len(e.Prompt), maxGatePrompt)
	case len(e.Options) > maxGateOptions:
		return nil, fmt.Errorf("has %d options: at most %d are allowed", len(e.Options), maxGateOptions)
	case len(e.Context) > maxGateContext:
		return nil, fmt.Errorf("has a context of %d bytes: at most %d are allowed", len(e.Context), maxGateContext)
	case depth(e.Context) > maxGateDepth:
		return nil, fmt.Errorf("has a context that is nested deeper than %d", maxGateDepth)
	case !slices.Contains([]string{"", "low", "normal", "high", "critical"}, e.Priority):
		return nil, fmt.Errorf("has the priority %.64q: low, normal, high and critical are allowed", e.Priority)
	case e.Quorum.Needed < 0 || e.Quorum.Needed > maxGateVotes || e.Quorum.Of < 0 || e.Quorum.Of > maxGateVotes || e.Quorum.Of != 0 && e.Quorum.Of < e.Quorum.Needed:
		return nil, fmt.Errorf("needs %d of %d answers: at most %d people answer", e.Quorum.Needed, e.Quorum.Of, maxGateVotes)
	}
	ids := map[string]bool{}
	for _, o := range e.Options {
		if !status.ValidGateWord(o.ID) || ids[o.ID] || len(o.Label) > maxGateLabel {
			return nil, fmt.Errorf("has the option %.64q: each option needs an id of its own, of letters, digits, '.', '-' and '_', and a label of at most %d bytes",
				o.ID, maxGateLabel)
		}
		ids[o.ID] = true
		report.Options = append(report.Options, &v1.GateOption{Id: o.ID, Label: o.Label, Cancels: o.Cancels})
	}
	if e.Timeout != "" {
		timeout, err := parseTimeout(e.Timeout)
		if err != nil || timeout < minGateTimeout {
			return nil, fmt.Errorf("has the timeout %.64q: 90s, 12h and 7d are such", e.Timeout)
		}
		report.TimeoutMs = timeout.Milliseconds()
	}
	answer, takes := strings.CutPrefix(e.OnTimeout, "resolve:")
	if takes && !ids[answer] || !takes && !slices.Contains([]string{"", "cancel", "continue"}, e.OnTimeout) {
		return nil, fmt.Errorf("has the on_timeout %.64q: cancel, continue, and resolve: with one of its options are allowed", e.OnTimeout)
	}
	if len(e.Context) > 0 && string(e.Context) != "null" {
		report.ContextJson = string(e.Context)
	}
	return report, nil
}

// depth is how deep a JSON value nests.
func depth(raw json.RawMessage) (deepest int) {
	now := 0
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		token, err := dec.Token()
		if err != nil {
			return deepest // The whole line is valid JSON, so this is its end.
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			now++
			deepest = max(deepest, now)
		case json.Delim('}'), json.Delim(']'):
			now--
		}
	}
}

// parseTimeout reads a duration, which may be in days.
func parseTimeout(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		text = days + "h"
		d, err := time.ParseDuration(text)
		return d * 24, err
	}
	return time.ParseDuration(text)
}

// gateFinding makes a finding of a line about a gate, and tells the user why there is none.
func (w *Watcher) gateFinding(line []byte) (Finding, bool) {
	report, err := gate(line)
	if err == nil {
		if w.gates++; w.gates > maxGates {
			err = fmt.Errorf("is one too many: at most %d gates of a task are asked about", maxGates)
		}
	}
	if err != nil {
		w.say("mind: a gate of this task %v. Nobody is asked, and the job goes on", err)
		return Finding{}, false
	}
	return Finding{kept: true, Body: &v1.Report{Body: &v1.Report_Gate{Gate: report}}}, true
}
