package session

import (
	"encoding/json"
	"strings"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
)

const (
	maxGatePrompt = executions.MaxText
	maxGateLabel  = 256
	// maxAnswers bounds the answers: they go into the environment of the job's processes; bytes.
	maxAnswers = 64 << 10
)

var gatePriorities = map[string]uint8{"low": 1, "normal": 2, "high": 3, "critical": 4}

// gateOf makes a decision of what a job asks at a gate; nil: it asks nothing that can be answered. ExpiresAt is relative.
func gateOf(g *v1.GateReport) *executions.Decision {
	name := g.GetName()
	if !status.ValidGateWord(name) || g.GetPrompt() == "" || len(g.GetOptions()) == 0 || len(g.GetOptions()) > executions.MaxOptions {
		return nil
	}
	d := &executions.Decision{
		Type: "gate", Path: name, Prompt: call.Clip(g.GetPrompt(), maxGatePrompt), Priority: gatePriorities["normal"],
		Assignee: call.Clip(g.GetAssignee(), call.MaxIdentity), ExpiresAt: max(0, g.GetTimeoutMs()) * 1e6, OnExpiry: executions.ExpireFail,
		Needed: uint32(min(max(g.GetNeeded(), 0), executions.MaxVotes)), Of: uint32(min(max(g.GetOf(), 0), executions.MaxVotes)),
	}
	if p, ok := gatePriorities[g.GetPriority()]; ok {
		d.Priority = p
	}
	if answer, takes := strings.CutPrefix(g.GetOnTimeout(), "resolve:"); takes {
		d.OnExpiry, d.Default = executions.ExpireResolve, call.Clip(answer, status.MaxGateWord)
	} else if g.GetOnTimeout() == "continue" {
		d.OnExpiry = executions.ExpireContinue
	}
	for _, o := range g.GetOptions() {
		if !status.ValidGateWord(o.GetId()) {
			return nil
		}
		d.Options = append(d.Options, executions.Option{ID: o.GetId(), Label: call.Clip(o.GetLabel(), maxGateLabel), Cancels: o.GetCancels()})
	}
	if context, err := numbers.Parse([]byte(g.GetContextJson())); err == nil {
		if stored, err := machine.EncodeValue(programs.FromAPI(context)); err == nil && len(stored) <= executions.MaxContext {
			d.Context = stored
		}
	}
	return d
}

// gateAnswer is the answer at one gate, for the job.
type gateAnswer struct {
	Resolution string `json:"resolution"`
	ResolvedBy string `json:"resolved_by,omitempty"`
	Comment    string `json:"comment,omitempty"`
	// Expired: nobody has answered.
	Expired bool `json:"expired,omitempty"`
}

// gateAnswers returns the answers at the gates that a job has passed, as a JSON object by name; empty: it has passed none.
// Comments are left out if all of it is too much.
func gateAnswers(v *fsm.View, job ident.Job) string {
	answers := map[string]gateAnswer{}
	for d := range v.GatesOf(job) {
		if !d.Passed() {
			continue
		}
		a := gateAnswer{Resolution: d.Resolution, ResolvedBy: d.ResolvedBy, Expired: d.Status == executions.Expired}
		for _, vote := range d.Votes {
			if vote.User == d.ResolvedBy {
				a.Comment = vote.Comment
			}
		}
		answers[d.Path] = a
	}
	if len(answers) == 0 {
		return ""
	}
	text := encoded(answers)
	if len(text) > maxAnswers {
		for name, a := range answers {
			a.Comment = ""
			answers[name] = a
		}
		text = encoded(answers)
	}
	return text
}

// encoded is the answers as JSON, with no more escapes than JSON needs: an environment has a bound.
func encoded(answers map[string]gateAnswer) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(answers) != nil {
		return "" // Strings and flags can be encoded.
	}
	return strings.TrimSuffix(out.String(), "\n")
}
