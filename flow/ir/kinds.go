package ir

// Kind says what a block does.
type Kind string

// The kinds.
const (
	Rigid      Kind = "rigid"
	Flexible   Kind = "flexible"
	Guarded    Kind = "guarded"
	ModelCall  Kind = "model_call"
	If         Kind = "if"
	Match      Kind = "match"
	Foreach    Kind = "foreach"
	While      Kind = "while"
	Parallel   Kind = "parallel"
	CoreCall   Kind = "core_call"
	Checkpoint Kind = "checkpoint"
	Wait       Kind = "wait"
	Try        Kind = "try"
	Debug      Kind = "debug"
	Compute    Kind = "compute"
)

// common are the fields that a block of any kind may have.
var common = []string{
	"kind", "id", "node_id", "source_location", "result_binding", "input_bindings", "timeout", "retry", "on_failure", "compensate",
}

// kinds has the fields that each kind adds, and whether Mind runs it.
var kinds = map[Kind]struct {
	fields []string
	runs   bool
}{
	Rigid: {[]string{"statements"}, true},
	Flexible: {[]string{
		"goal", "output_type", "llm_role", "guidance", "constraints", "examples", "identity_ref", "budget", "context_bindings",
	}, false},
	Guarded: {[]string{
		"goal", "output_type", "llm_role", "guidance", "constraints", "examples", "identity_ref", "budget", "context_bindings",
		"guard", "validate", "on_validation_failure",
	}, false},
	ModelCall: {[]string{"llm_role", "messages", "params", "output_type"}, false},
	If:        {[]string{"cases", "else"}, true},
	Match:     {[]string{"subject", "arms", "else"}, true},
	Foreach:   {[]string{"items", "var", "body", "max_concurrent", "fail_fast", "collect"}, true},
	While:     {[]string{"when", "body", "max_iterations"}, true},
	Parallel:  {[]string{"branches", "max_concurrent", "fail_fast", "join"}, true},
	CoreCall:  {[]string{"target", "flow", "instance_key", "version", "is_async"}, true},
	Checkpoint: {[]string{
		"type", "prompt", "options", "schema", "assignee", "priority", "on_timeout", "escalation_target", "context", "hitl_target",
		"on_response", "subject_digest", "quorum", "remind_every", "notify_url",
	}, true},
	Wait:    {[]string{"duration", "until", "event", "callback"}, true},
	Try:     {[]string{"body", "catch", "finally"}, true},
	Debug:   {[]string{"label", "values"}, true},
	Compute: {[]string{"action", "spec", "wait", "gate", "job"}, true},
}

// Known says whether there is such a kind.
func (k Kind) Known() bool { _, ok := kinds[k]; return ok }

// Runs says whether Mind can run blocks of the kind. The others need what leaves the cluster.
func (k Kind) Runs() bool { return kinds[k].runs }
