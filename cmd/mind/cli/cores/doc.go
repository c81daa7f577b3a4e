// Package cores implements `mind core`, `mind execution` and `mind decision`: hosted programs, their runs, and the
// questions that they ask people.
//
// Each thing that is waited for is named with the command that answers it. Values of environments are read from files or stdin, and
// never printed.
package cores

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// The verbs below each noun.
var (
	coreVerbs = rest.Verbs{
		newCreate, newList, newShow, newUpdate, newStart, newStop, newRestart, newPause, newResume, newDelete, newInvoke, newSend, newEvents,
	}
	executionVerbs = rest.Verbs{
		newExecutions, newExecution, newWatch, newCancelExecution, newPauseExecution, newResumeExecution, newSignal, newRetry,
	}
	decisionVerbs = rest.Verbs{newDecisions, newDecision, newResolve, newCancelDecision, newReassign}
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	core := &cobra.Command{
		Use:   "core",
		Short: "Make, start and call Cores: hosted flows",
		Long: `Makes, starts and calls Cores. A Core is a flow that the cluster runs: its position is stored, so it goes on where it stood when
machines fail, and a question to a person costs no GPU. docs/use/cores.md has a tutorial, docs/use/flows.md describes programs.

A Core is named by its slug, which follows from its name ("Nightly run" is nightly-run), or by its id.`,
		Example: `  mind core create -f nightly.json --start
  mind core invoke nightly --input '{"steps": 200}'
  mind core list`,
	}
	core.AddCommand(coreVerbs.Make()...)
	execution := &cobra.Command{
		Use:   "execution",
		Short: "Watch and steer executions: runs of Cores",
		Long: `Lists, watches and steers executions. An execution is one run of a flow of a Core; mind core invoke starts one, and so does an
event that the program has a trigger for.`,
		Example: `  mind execution list --status failed
  mind execution watch exec_1k0g00`,
	}
	execution.AddCommand(executionVerbs.Make()...)
	decision := &cobra.Command{
		Use:   "decision",
		Short: "List and answer the questions that flows ask people",
		Long: `Lists and answers decisions: the questions that flows ask people with a checkpoint block. An execution that asks waits until
enough people have answered, or until the decision expires.`,
		Example: `  mind decision list
  mind decision resolve dec_1k0g00 approve --comment 'looks good'`,
	}
	decision.AddCommand(decisionVerbs.Make()...)
	return []*cobra.Command{core, execution, decision}
}

func corePath(name string) string    { return target.CorePath + "/cores/" + url.PathEscape(name) }
func executionPath(id string) string { return target.CorePath + "/executions/" + url.PathEscape(id) }

func decisionPath(id string) string { return target.CorePath + "/checkpoints/" + url.PathEscape(id) }

// core is a Core as the gateway shows it.
type core struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Slug      string     `json:"slug"`
	Status    string     `json:"status"`
	Error     string     `json:"error"`
	Version   int        `json:"version"`
	Mode      string     `json:"runtime_mode"`
	Asks      string     `json:"checkpoint_mode"`
	Notify    string     `json:"notify_url"`
	User      string     `json:"user_id"`
	Digest    string     `json:"source_digest"`
	Variables []string   `json:"environment_names"`
	CreatedAt *time.Time `json:"created_at"`
	UpdatedAt *time.Time `json:"updated_at"`
	StartedAt *time.Time `json:"started_at"`
	Source    struct {
		Flows []struct {
			Name string `json:"name"`
		} `json:"flows"`
	} `json:"source"`
}

type stepError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Step    string `json:"step"`
}

// String is the error as a sentence.
func (e *stepError) String() string {
	text := e.Code
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// execution is an execution as the gateway shows it.
type execution struct {
	ID         string          `json:"execution_id"`
	Core       string          `json:"core_id"`
	Slug       string          `json:"core_slug"`
	Version    int             `json:"version"`
	Flow       string          `json:"flow"`
	Status     string          `json:"status"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	Error      *stepError      `json:"error"`
	WaitingFor []awaited       `json:"waiting_for"`
	Steps      []step          `json:"steps"`
	Parent     string          `json:"parent_id"`
	Trigger    string          `json:"trigger"`
	User       string          `json:"user_id"`
	Retries    int             `json:"retries"`
	CreatedAt  *time.Time      `json:"created_at"`
	FinishedAt *time.Time      `json:"finished_at"`
}

func (e *execution) over() bool { return e.FinishedAt != nil }

type step struct {
	Step      string     `json:"step"`
	Kind      string     `json:"kind"`
	Attempt   int        `json:"attempt"`
	Status    string     `json:"status"`
	StartedAt *time.Time `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Error     *stepError `json:"error"`
}

type awaited struct {
	Step  string     `json:"step"`
	Kind  string     `json:"kind"`
	ID    string     `json:"id"`
	Since *time.Time `json:"since"`
	Until *time.Time `json:"until"`
}

// decision is a decision as the gateway shows it.
type decision struct {
	ID        string          `json:"id"`
	Core      string          `json:"core_id"`
	Slug      string          `json:"core_slug"`
	Execution string          `json:"execution_id"`
	Flow      string          `json:"flow_name"`
	Step      string          `json:"step"`
	Type      string          `json:"checkpoint_type"`
	Prompt    string          `json:"prompt"`
	Options   []option        `json:"options"`
	Schema    json.RawMessage `json:"schema"`
	Context   json.RawMessage `json:"context"`
	Status    string          `json:"status"`
	Priority  string          `json:"priority"`
	Assignee  string          `json:"assignee_raw"`
	ExpiresAt *time.Time      `json:"expires_at"`
	OnExpiry  string          `json:"expiry_action"`
	Target    string          `json:"escalation_target"`
	Escalated bool            `json:"escalated"`
	Reminders int             `json:"reminder_count"`
	Subject   string          `json:"subject_digest"`
	Quorum    struct {
		Needed int `json:"needed"`
		Of     int `json:"of"`
	} `json:"quorum"`
	Votes      []vote          `json:"votes"`
	Resolution string          `json:"resolution"`
	Data       json.RawMessage `json:"data"`
	ResolvedBy string          `json:"resolved_by"`
	ResolvedAt *time.Time      `json:"resolved_at"`
	CreatedAt  *time.Time      `json:"created_at"`
	NotifiedAt *time.Time      `json:"notified_at"`
	NotifyErr  string          `json:"notify_error"`
	// Job waits at a gate for the answer.
	Job     string `json:"job_id"`
	Attempt int    `json:"attempt"`
}

type option struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Cancels bool   `json:"cancels"`
}

type vote struct {
	User       string     `json:"user_id"`
	Resolution string     `json:"resolution"`
	Comment    string     `json:"comment"`
	At         *time.Time `json:"at"`
}

// given says whether a free value of an answer is there.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
