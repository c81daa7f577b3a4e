package ir

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/mindcoordinator/mind/flow/expr"
)

// Block is one step. Kind says which of the fields after the common ones it has.
type Block struct {
	Kind   Kind   `json:"kind"`
	ID     string `json:"id"`
	NodeID string `json:"node_id,omitempty"`
	// SourceLocation is the published place of the node's id.
	SourceLocation *SourceLocation  `json:"source_location,omitempty"`
	ResultBinding  string           `json:"result_binding,omitempty"`
	InputBindings  map[string]*Expr `json:"input_bindings,omitempty"`
	// Timeout bounds one attempt.
	Timeout    Duration  `json:"timeout,omitempty"`
	Retry      *Retry    `json:"retry,omitempty"`
	OnFailure  []Handler `json:"on_failure,omitempty"`
	Compensate []Block   `json:"compensate,omitempty"`

	// rigid
	Statements []Statement `json:"statements,omitempty"`

	// if, match
	Cases   []Case  `json:"cases,omitempty"`
	Else    []Block `json:"else,omitempty"`
	Subject *Expr   `json:"subject,omitempty"`
	Arms    []Arm   `json:"arms,omitempty"`

	// foreach, while, try
	Items         *Expr   `json:"items,omitempty"`
	Var           string  `json:"var,omitempty"`
	Body          []Block `json:"body,omitempty"`
	Collect       *Expr   `json:"collect,omitempty"`
	When          *Expr   `json:"when,omitempty"`
	MaxIterations int     `json:"max_iterations,omitempty"`
	// Catch is nil where nothing is caught; an empty one catches.
	Catch   []Block `json:"catch,omitzero"`
	Finally []Block `json:"finally,omitempty"`

	// parallel, and foreach
	Branches      []Branch `json:"branches,omitempty"`
	MaxConcurrent int      `json:"max_concurrent,omitempty"`
	FailFast      *bool    `json:"fail_fast,omitempty"`
	Join          string   `json:"join,omitempty"`

	// core_call
	Target      string    `json:"target,omitempty"`
	Flow        string    `json:"flow,omitempty"`
	InstanceKey *Template `json:"instance_key,omitempty"`
	Version     any       `json:"version,omitempty"`
	IsAsync     bool      `json:"is_async,omitempty"`

	// checkpoint
	Type             string          `json:"type,omitempty"`
	Prompt           *Template       `json:"prompt,omitempty"`
	Options          []Option        `json:"options,omitempty"`
	Schema           json.RawMessage `json:"schema,omitempty"`
	Assignee         *Template       `json:"assignee,omitempty"`
	Priority         string          `json:"priority,omitempty"`
	OnTimeout        string          `json:"on_timeout,omitempty"`
	EscalationTarget string          `json:"escalation_target,omitempty"`
	Context          *Value          `json:"context,omitempty"`
	HITLTarget       any             `json:"hitl_target,omitempty"`
	OnResponse       []Arm           `json:"on_response,omitempty"`
	SubjectDigest    *Template       `json:"subject_digest,omitempty"`
	Quorum           *Quorum         `json:"quorum,omitempty"`
	RemindEvery      Duration        `json:"remind_every,omitempty"`
	NotifyURL        string          `json:"notify_url,omitempty"`

	// wait
	Duration *Template `json:"duration,omitempty"`
	Until    *Expr     `json:"until,omitempty"`
	Event    string    `json:"event,omitempty"`
	Callback any       `json:"callback,omitempty"`

	// debug
	Label  string `json:"label,omitempty"`
	Values *Value `json:"values,omitempty"`

	// compute
	Action string `json:"action,omitempty"`
	Spec   *Value `json:"spec,omitempty"`
	// WaitFor is "end" (the default), "start" or "none".
	WaitFor string    `json:"wait,omitempty"`
	Gate    any       `json:"gate,omitempty"`
	Job     *Template `json:"job,omitempty"`

	// flexible, guarded, model_call
	Goal                string `json:"goal,omitempty"`
	OutputType          any    `json:"output_type,omitempty"`
	LLMRole             string `json:"llm_role,omitempty"`
	Guidance            any    `json:"guidance,omitempty"`
	Constraints         any    `json:"constraints,omitempty"`
	Examples            any    `json:"examples,omitempty"`
	IdentityRef         any    `json:"identity_ref,omitempty"`
	Budget              any    `json:"budget,omitempty"`
	ContextBindings     any    `json:"context_bindings,omitempty"`
	Guard               any    `json:"guard,omitempty"`
	Validate            any    `json:"validate,omitempty"`
	OnValidationFailure any    `json:"on_validation_failure,omitempty"`
	Messages            any    `json:"messages,omitempty"`
	Params              any    `json:"params,omitempty"`

	// strange are the fields that its kind does not have.
	strange []string
}

// SourceLocation says where a block comes from.
type SourceLocation struct {
	NodeID string `json:"node_id,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Retry says how often a failed block is tried again.
type Retry struct {
	// Max is how many attempts follow the first one.
	Max     int      `json:"max"`
	Backoff Duration `json:"backoff,omitempty"`
	Cap     Duration `json:"cap,omitempty"`
	// On are the codes of the errors that are worth another attempt; none: all that are retryable.
	On []string `json:"on,omitempty"`
}

// Handler says what happens when a block has failed for good.
type Handler struct {
	// Match are codes of errors; none, or "*": all.
	Match  []string `json:"match,omitempty"`
	Action string   `json:"action"`
	Body   []Block  `json:"body,omitempty"`
}

// Statement is one line of a rigid block. Kind says which fields it has.
type Statement struct {
	Kind       string `json:"kind"`
	Expression *Expr  `json:"expression,omitempty"`
	// Template is the published form of an expression with placeholders.
	Template *Template `json:"template,omitempty"`
	Name     string    `json:"name,omitempty"`
	Value    *Expr     `json:"value,omitempty"`
	// Event and Data are of an emit.
	Event string `json:"event,omitempty"`
	Data  *Value `json:"data,omitempty"`
	// Code and Message are of a fail.
	Code      string    `json:"code,omitempty"`
	Message   *Template `json:"message,omitempty"`
	Retryable bool      `json:"retryable,omitempty"`
	// Plugin, Method, Args, URL and the like are of calls, which Mind does not run yet.
	Plugin string `json:"plugin,omitempty"`
	Method string `json:"method,omitempty"`
	Args   any    `json:"args,omitempty"`
	URL    any    `json:"url,omitempty"`
	Body   any    `json:"body,omitempty"`
	Header any    `json:"headers,omitempty"`
	Key    any    `json:"key,omitempty"`

	// strange are the fields that its kind does not have.
	strange []string
}

// statements has the fields of each kind of statement that Mind runs.
var statements = map[string][]string{
	StatementExpression: {"kind", "expression", "template"},
	StatementAssign:     {"kind", "name", "value"},
	StatementEmit:       {"kind", "event", "data"},
	StatementReturn:     {"kind", "value"},
	StatementFail:       {"kind", "code", "message", "retryable"},
}

// Strange lists the fields that the statement has and statements of its kind do not.
func (s *Statement) Strange() []string { return s.strange }

// UnmarshalJSON implements json.Unmarshaler. It remembers which fields do not belong to the kind.
func (s *Statement) UnmarshalJSON(data []byte) error {
	type plain Statement
	if err := strictly(data, (*plain)(s)); err != nil {
		return err
	}
	if has, known := statements[s.Kind]; known {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return err
		}
		s.strange = others(fields, has)
	}
	return nil
}

// The kinds of statements that Mind runs.
const (
	StatementExpression = "expression"
	StatementAssign     = "assign"
	StatementEmit       = "emit"
	StatementReturn     = "return"
	StatementFail       = "fail"
)

// Case is one way through an if.
type Case struct {
	When *Expr   `json:"when"`
	Body []Block `json:"body"`
}

// Arm is one way through a match, or the answer to a checkpoint.
type Arm struct {
	Values []any   `json:"values"`
	Body   []Block `json:"body"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Arm) UnmarshalJSON(data []byte) error {
	type plain Arm
	if err := precisely(data, (*plain)(a)); err != nil {
		return err
	}
	for i, v := range a.Values {
		var err error
		if a.Values[i], err = expr.Normalize(v); err != nil {
			return fmt.Errorf("values[%d]: %w", i, err)
		}
	}
	return nil
}

// Branch is one of the bodies that run beside each other.
type Branch struct {
	Name string  `json:"name"`
	Body []Block `json:"body"`
}

// Option is an answer that a decision allows. As JSON, a text alone is an option whose label is its id.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Option) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &o.ID)
	}
	type plain Option
	return strictly(data, (*plain)(o))
}

// Quorum is how many of how many have to agree.
type Quorum struct {
	Needed int `json:"needed"`
	Of     int `json:"of,omitempty"`
}

// Node is the id of the node that the block was compiled from, or "".
func (b *Block) Node() string {
	if b.NodeID == "" && b.SourceLocation != nil {
		return b.SourceLocation.NodeID
	}
	return b.NodeID
}

// Strange lists the fields that the block has and blocks of its kind do not.
func (b *Block) Strange() []string { return b.strange }

// UnmarshalJSON implements json.Unmarshaler. It remembers which fields do not belong to the kind.
func (b *Block) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("a block has to be an object: %w", err)
	}
	type plain Block
	strange := others(fields, blockFields())
	if len(strange) > 0 {
		// Check names them, beside all else that is wrong.
		for _, name := range strange {
			delete(fields, name)
		}
		var err error
		if data, err = json.Marshal(fields); err != nil {
			return err
		}
	}
	if err := strictly(data, (*plain)(b)); err != nil {
		return located(b.ID, b.Kind, err)
	}
	if b.Kind.Known() {
		b.strange = append(strange, others(fields, append(slices.Clone(common), kinds[b.Kind].fields...))...)
		slices.Sort(b.strange)
	}
	return nil
}

// others lists the fields that are not among those of a kind.
func others(fields map[string]json.RawMessage, has []string) []string {
	var names []string
	for name := range fields {
		if !slices.Contains(has, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// blockFields are the fields of all kinds of blocks.
var blockFields = sync.OnceValue(func() []string {
	all := slices.Clone(common)
	for _, k := range kinds {
		all = append(all, k.fields...)
	}
	return all
})
