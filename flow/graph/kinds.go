package graph

import (
	"maps"
	"slices"
)

// Kind says what a node does.
type Kind string

// The kinds, in the order of the palette.
const (
	EntryAPI            Kind = "entry_api"
	EntryWebhook        Kind = "entry_webhook"
	EntrySchedule       Kind = "entry_schedule"
	LLMRigid            Kind = "llm_rigid"
	LLMGuarded          Kind = "llm_guarded"
	LLMFlexible         Kind = "llm_flexible"
	LogicDecision       Kind = "logic_decision"
	LogicLoop           Kind = "logic_loop"
	LogicParallel       Kind = "logic_parallel"
	ToolPlugin          Kind = "tool_plugin"
	ToolHTTP            Kind = "tool_http"
	DataVariableSet     Kind = "data_variable_set"
	Checkpoint          Kind = "checkpoint"
	HITLReview          Kind = "hitl_review"
	HITLDecision        Kind = "hitl_decision"
	QueuePublish        Kind = "queue_publish"
	QueueConsume        Kind = "queue_consume"
	QueueEscalation     Kind = "queue_escalation"
	ComputeProvision    Kind = "compute_provision"
	ComputeExec         Kind = "compute_exec"
	ComputeFileUpload   Kind = "compute_file_upload"
	ComputeFileDownload Kind = "compute_file_download"
	ComputeDestroy      Kind = "compute_destroy"
	SubflowCall         Kind = "subflow_call"
)

// Spec describes a kind, for the checker and for the palette and the inspector of the designer.
type Spec struct {
	Kind     Kind   `json:"kind"`
	Category string `json:"category"`
	Label    string `json:"label"`
	Help     string `json:"help"`
	// Runs is false for a kind that compiles, and that this version of Mind does not run.
	Runs    bool    `json:"runs"`
	Inputs  []Port  `json:"inputs"`
	Outputs []Port  `json:"outputs"`
	Fields  []Field `json:"fields"`
	// Ports says that the node may have other outputs than those of its kind.
	Ports bool `json:"own_outputs,omitempty"`
	// Result has the fields of the result of a node, as far as they are the same for each node of the kind.
	Result []ResultField `json:"result,omitempty"`
}

// ResultField is a field of a result, for editors.
type ResultField struct {
	Name string `json:"name"`
	// Type is one of expressions: string, int, double, bool, list, map or any.
	Type string `json:"type"`
	Help string `json:"help"`
}

// answer is the result of a question.
var answer = []ResultField{
	{"resolution", "string", "the answer that was chosen"},
	{"comment", "string", "the comment of the user who resolved it; empty if there is none"},
	{"data", "any", "the answer to a schema"},
	{"resolved_by", "string", "the user who resolved it"},
	{"status", "string", "resolved, or expired"},
	{"votes", "list", "user_id, resolution and comment of each vote"},
	{"checkpoint_id", "string", "its id"},
	{"decision", "string", "the same as resolution"},
}

// ended is the result of a job, the fields that flows use most. It has all of those that REST shows.
var ended = []ResultField{
	{"job_id", "string", "its id"},
	{"status", "string", "COMPLETED; another one if the node does not wait for the end"},
	{"name", "string", "its name"},
	{"labels", "map", "its labels"},
	{"attempt", "int", "how often it was started"},
	{"exit_code", "int", "the exit code of its command; null without one"},
	{"nodes", "list", "the nodes that it had"},
	{"progress", "map", "step and total_steps; null if it reported none"},
	{"last_checkpoint_id", "string", "the newest checkpoint of the training"},
	{"created_at", "string", "when it was submitted"},
	{"started_at", "string", "when it started"},
	{"finished_at", "string", "when it ended"},
}

// Category is a group of the palette, with its colour.
type Category struct {
	Name   string `json:"name"`
	Label  string `json:"label"`
	Colour string `json:"colour"`
}

// Categories are the nine groups, in the order of the palette.
func Categories() []Category {
	return []Category{
		{"entry", "Entry", "green"},
		{"llm", "LLM", "blue"},
		{"logic", "Logic", "orange"},
		{"tool", "Tool", "purple"},
		{"data", "Data", "teal"},
		{"checkpoint", "Checkpoint", "yellow"},
		{"queue", "Queue and people", "amber"},
		{"compute", "Compute", "indigo"},
		{"subflow", "Sub-flow", "grey"},
	}
}

var (
	in  = []Port{{ID: "in", Label: "in", Type: "object"}}
	out = []Port{{ID: "out", Label: "out", Type: "object"}}
	end = []Port{}
)

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// llm are the fields that both kinds of calls of a model share.
func llm(more ...Field) []Field {
	return append([]Field{
		{Name: "goal", Type: Text, Required: true, Help: "The task of the model"},
		{Name: "llm_role", Type: Name, Help: "Role of the model, of the models of the flow; none: the first one"},
		{Name: "output_schema", Type: Map, Help: "Fields of the result with their types: string, float, array, enum[a, b]"},
		{Name: "input_bindings", Type: Bindings, Help: "Names that the model sees, each with an expression"},
		{Name: "context_bindings", Type: Any, Help: "Further context"},
		{Name: "guidance", Type: Any, Help: "How it should be done"},
		{Name: "constraints", Type: Any, Help: "never, always and prefer"},
	}, more...)
}

// asks are the fields of kinds that ask people.
func asks(more ...Field) []Field {
	return append(more,
		Field{Name: "prompt", Type: Template, Required: true, Help: "The question"},
		Field{Name: "options", Type: List, Help: "The answers that are allowed"},
		Field{Name: "schema", Type: Any, Ours: true, Help: "A JSON Schema of the answer, instead of options"},
		Field{Name: "assignee", Type: Template, Help: "user:ID, group:ID or role:NAME; none: everybody who may answer"},
		Field{Name: "priority", Type: Choice, Choices: []string{"low", "normal", "high", "critical"}, Ours: true, Help: "How urgent it is"},
		Field{Name: "on_timeout", Type: Text, Help: "After the timeout: fail, continue, escalate or resolve:OPTION"},
		Field{Name: "escalation_target", Type: Text, Ours: true, Help: "The assignee after on_timeout escalate"},
		Field{Name: "context", Type: Any, Ours: true, Help: "JSON that is shown with the question"},
		Field{Name: "subject_digest", Type: Template, Ours: true, Help: "Digest of what is decided about"},
		Field{Name: "quorum", Type: Any, Ours: true, Help: `How many have to agree: {"needed": 2, "of": 3}`},
	)
}

// common are the fields of every kind but the entries. All are ours.
var common = []Field{
	{Name: "result_binding", Type: Name, Ours: true, Help: "Name of the result; none: the label in lower case, with _ for spaces"},
	{Name: "timeout", Type: Duration, Help: "Bound of one attempt, as in 30s, 5m, 7d"},
	{Name: "retry", Type: Any, Ours: true, Help: `Further attempts: {"max": 3, "backoff": "10s"}`},
	{Name: "on_failure", Type: Any, Help: "Actions after its last failure"},
	{Name: "breakpoint", Type: Bool, Help: "Ask before the node runs"},
}

// specs has the kinds.
var specs = map[Kind]Spec{
	EntryAPI: {
		Category: "entry", Label: "API", Help: "A call of the flow starts it", Runs: true,
		Outputs: []Port{{"out_request", "request", "object"}},
		Fields: []Field{
			{Name: "method", Type: Choice, Choices: methods, Default: "POST", Help: "Method of the call"},
			{Name: "path", Type: Text, Default: "/", Help: "Path of the call"},
		},
	},
	EntryWebhook: {
		Category: "entry", Label: "Webhook", Help: "A delivery of another system starts it",
		Outputs: []Port{{"out_event", "event", "object"}},
		Fields: []Field{
			{Name: "method", Type: Choice, Choices: methods, Default: "POST", Help: "Method of the delivery"},
			{Name: "path", Type: Text, Default: "/", Help: "Path of the delivery"},
			{Name: "auth", Type: Any, Help: "Reserved"},
		},
	},
	EntrySchedule: {
		Category: "entry", Label: "Schedule", Help: "The time starts it",
		Outputs: []Port{{"out_tick", "tick", "object"}},
		Fields: []Field{
			{Name: "cron", Type: Text, Required: true, Default: "0 * * * *", Help: "The five fields of cron"},
			{Name: "timezone", Type: Text, Default: "UTC", Help: "Time zone of the fields"},
		},
	},
	LLMRigid: {
		Category: "llm", Label: "Template", Help: "Fills a text, without a model", Runs: true,
		Fields: []Field{{Name: "template", Type: Template, Required: true, Help: "Text with {{places}}"}},
	},
	LLMGuarded: {
		Category: "llm", Label: "Guarded", Help: "Asks a model, and checks the answer",
		Fields: llm(
			Field{Name: "guard", Type: Expression, Help: "Must hold before the call"},
			Field{Name: "validate", Type: Expression, Help: "Must hold for the answer"},
			Field{Name: "on_validation_failure", Type: Any, Help: "Action if it does not hold"}),
	},
	LLMFlexible: {
		Category: "llm", Label: "Flexible", Help: "Asks a model",
		Fields: llm(
			Field{Name: "identity_ref", Type: Bool, Help: "The model speaks as the identity of the flow"},
			Field{Name: "examples", Type: List, Help: "Examples of good answers"},
			Field{Name: "budget", Type: Any, Help: "Bounds of the call"}),
	},
	LogicDecision: {
		Category: "logic", Label: "Decision", Help: "Takes the first edge whose condition is true", Runs: true, Ports: true,
		Fields: []Field{
			{Name: "style", Type: Choice, Choices: []string{"if", "match"}, Default: "if", Help: "if: conditions are expressions; match: they are values of the subject"},
			{Name: "subject", Type: Expression, Help: "The value that a match compares"},
		},
	},
	LogicLoop: {
		Category: "logic", Label: "Loop", Help: "Runs what is at out_body again and again", Runs: true,
		Outputs: []Port{{"out_body", "body", "object"}, {"out_done", "done", "object"}},
		Fields: []Field{
			{Name: "style", Type: Choice, Choices: []string{"foreach", "while"}, Default: "foreach", Help: "foreach: once for each item; while: as long as a condition is true"},
			{Name: "items", Type: Expression, Ours: true, Help: "The list of a foreach"},
			{Name: "var", Type: Name, Default: "item", Ours: true, Help: "Name of the item"},
			{Name: "collect", Type: Expression, Ours: true, Help: "Value of each iteration that goes into the result"},
			{Name: "max_concurrent", Type: Int, Default: 1, Min: 1, Max: 256, Ours: true, Help: "Iterations beside each other"},
			{Name: "fail_fast", Type: Bool, Default: true, Ours: true, Help: "The first failure ends the loop"},
			{Name: "when", Type: Expression, Ours: true, Help: "The condition of a while"},
			{Name: "max_iterations", Type: Int, Min: 1, Max: 100_000, Help: "Bound of a while; 1000 is a good one"},
		},
	},
	LogicParallel: {
		Category: "logic", Label: "Parallel", Help: "Runs what is at its outputs beside each other", Runs: true, Ports: true,
		Outputs: []Port{{"out_1", "1", "object"}, {"out_2", "2", "object"}},
		Fields: []Field{
			{Name: "max_concurrent", Type: Int, Min: 1, Max: 256, Help: "Branches at the same time; none: all"},
			{Name: "fail_fast", Type: Bool, Default: true, Help: "The first failure ends it"},
			{Name: "join", Type: Choice, Choices: []string{"all", "any"}, Default: "all", Ours: true, Help: "all: waits for each branch; any: for the first one"},
		},
	},
	ToolPlugin: {
		Category: "tool", Label: "Plugin", Help: "Calls a plugin; mind trains, evaluates and runs jobs", Runs: true,
		Result: ended,
		Fields: []Field{
			{Name: "plugin", Type: Text, Required: true, Default: "mind", Help: "Alias of the plugin; mind is the cluster"},
			{Name: "method", Type: Text, Required: true, Default: "job", Help: "Of mind: job, train, evaluate, pause, resume, cancel"},
			{Name: "args", Type: Any, Help: "The arguments, with {{places}}. Of mind: the body of the REST request, or job_id"},
			{Name: "wait", Type: Choice, Choices: []string{"end", "start", "none"}, Default: "end", Ours: true, Help: "Waits for the end of the job, for its start, or for neither; of mind alone"},
		},
	},
	ToolHTTP: {
		Category: "tool", Label: "HTTP", Help: "Calls a URL",
		Fields: []Field{
			{Name: "method", Type: Choice, Choices: methods, Default: "GET", Ours: true, Help: "Method of the request"},
			{Name: "url", Type: Template, Required: true, Ours: true, Help: "The URL, with {{places}}"},
			{Name: "headers", Type: Map, Ours: true, Help: "Headers of the request"},
			{Name: "body", Type: Any, Ours: true, Help: "Body of the request"},
		},
	},
	DataVariableSet: {
		Category: "data", Label: "Set variable", Help: "Binds a name", Runs: true,
		Fields: []Field{
			{Name: "name", Type: Name, Required: true, Ours: true, Help: "The name"},
			{Name: "value", Type: Expression, Required: true, Ours: true, Help: "Its value"},
		},
	},
	Checkpoint: {
		Category: "checkpoint", Label: "Checkpoint", Help: "Asks a person, and waits for the answer", Runs: true,
		Result: answer,
		Fields: asks(Field{Name: "type", Type: Text, Default: "approval", Help: "approval, choice, freeform or a type of your own"}),
	},
	HITLDecision: {
		Category: "queue", Label: "Decision of a person", Help: "Asks a person, and waits for the answer", Runs: true,
		Result: answer,
		Fields: asks(Field{Name: "type", Type: Text, Default: "approval", Help: "approval, choice, freeform or a type of your own"}),
	},
	HITLReview: {
		Category: "queue", Label: "Review", Help: "Asks a person by way of a queue", Runs: true,
		Result: answer,
		Fields: asks(
			Field{Name: "scope", Type: Text, Help: "Scope of the queue; none: that of the flow"},
			Field{Name: "queue", Type: Text, Required: true, Help: "The queue"},
			Field{Name: "sections", Type: List, Help: "Parts that are shown: context, input, decision"}),
	},
	QueuePublish: {
		Category: "queue", Label: "Publish", Help: "Puts a message into a queue",
		Fields: []Field{
			{Name: "queue", Type: Text, Required: true, Help: "The queue"},
			{Name: "scope", Type: Text, Help: "Its scope; none: that of the flow"},
			{Name: "message_type", Type: Text, Help: "Type of the message"},
			{Name: "payload", Type: Any, Help: "The message, with {{places}}"},
		},
	},
	QueueConsume: {
		Category: "queue", Label: "Consume", Help: "Takes a message out of a queue",
		Fields: []Field{
			{Name: "queue", Type: Text, Required: true, Ours: true, Help: "The queue"},
			{Name: "scope", Type: Text, Ours: true, Help: "Its scope; none: that of the flow"},
			{Name: "message_type", Type: Text, Ours: true, Help: "Only messages of this type"},
		},
	},
	QueueEscalation: {
		Category: "queue", Label: "Escalate", Help: "Hands a case on to people",
		Fields: []Field{
			{Name: "queue", Type: Text, Required: true, Ours: true, Help: "The queue"},
			{Name: "scope", Type: Text, Ours: true, Help: "Its scope; none: that of the flow"},
			{Name: "reason", Type: Template, Ours: true, Help: "Why it is handed on"},
			{Name: "payload", Type: Any, Ours: true, Help: "The case, with {{places}}"},
		},
	},
	ComputeProvision: {
		Category: "compute", Label: "Provision", Help: "Makes a bunker: a machine for the steps of the flow",
		Outputs: []Port{{"out", "bunker", "object"}},
		Fields: []Field{
			{Name: "image", Type: Text, Default: "python-3.12", Help: "Its image"},
			{Name: "lifecycle", Type: Choice, Choices: []string{"ephemeral", "session", "persistent", "appliance"}, Default: "ephemeral", Help: "How long it lives"},
			{Name: "cpu_millicores", Type: Int, Min: 1, Max: 1 << 20, Help: "CPUs, in thousandths"},
			{Name: "memory_mb", Type: Int, Min: 1, Max: 1 << 30, Help: "Memory, in MiB"},
			{Name: "disk_mb", Type: Int, Min: 1, Max: 1 << 30, Help: "Disk, in MiB"},
			{Name: "gpu_count", Type: Int, Min: 0, Max: 1 << 16, Help: "GPUs"},
			{Name: "network_profile", Type: Text, Help: "Profile of the networks that it reaches"},
		},
	},
	ComputeExec: {
		Category: "compute", Label: "Run a command", Help: "Runs a command in the bunker",
		Fields: []Field{
			{Name: "command", Type: List, Required: true, Help: "The command and its arguments"},
			{Name: "timeout_s", Type: Int, Min: 1, Max: 366 * 86_400, Help: "Bound, in seconds"},
		},
	},
	ComputeFileUpload: {
		Category: "compute", Label: "Write a file", Help: "Writes a file of the bunker",
		Fields: []Field{
			{Name: "path", Type: Template, Required: true, Help: "Where"},
			{Name: "content", Type: Template, Required: true, Help: "Its content"},
		},
	},
	ComputeFileDownload: {
		Category: "compute", Label: "Read a file", Help: "Reads a file of the bunker",
		Outputs: []Port{{"out", "content", "string"}},
		Fields:  []Field{{Name: "path", Type: Template, Required: true, Help: "Which"}},
	},
	ComputeDestroy: {
		Category: "compute", Label: "Destroy", Help: "Ends the bunker", Fields: []Field{},
	},
	SubflowCall: {
		Category: "subflow", Label: "Call a flow", Help: "Runs another flow", Runs: true,
		Fields: []Field{
			{Name: "target", Type: Text, Required: true, Help: "core://TENANT/SLUG, the slug of a Core, or self"},
			{Name: "flow_name", Type: Text, Help: "A flow of the Core; none: the first one"},
			{Name: "input_bindings", Type: Bindings, Help: "Its input: names, each with an expression"},
			{Name: "instance_key", Type: Template, Help: "Instance of a Core of the mode entity"},
			{Name: "version", Type: Any, Help: "Version of the Core; none: the active one"},
			{Name: "is_async", Type: Bool, Help: "Do not wait for its end"},
		},
	},
}

// order is that of the palette.
var order = []Kind{
	EntryAPI, EntryWebhook, EntrySchedule, LLMRigid, LLMGuarded, LLMFlexible, LogicDecision, LogicLoop, LogicParallel, ToolPlugin, ToolHTTP,
	DataVariableSet, Checkpoint, QueuePublish, QueueConsume, HITLReview, HITLDecision, QueueEscalation,
	ComputeProvision, ComputeExec, ComputeFileUpload, ComputeFileDownload, ComputeDestroy, SubflowCall,
}

// Kinds describes all kinds, in the order of the palette.
func Kinds() []Spec {
	all := make([]Spec, 0, len(order))
	for _, kind := range order {
		all = append(all, kind.spec())
	}
	return all
}

// spec describes a kind, with its default ports. An unknown kind has none.
func (k Kind) spec() Spec {
	s, ok := specs[k]
	if !ok {
		return Spec{Kind: k, Inputs: end, Outputs: end}
	}
	s.Kind = k
	if s.Inputs == nil {
		if s.Inputs = in; s.Category == "entry" {
			s.Inputs = end
		}
	}
	if s.Outputs == nil {
		s.Outputs = out
	}
	s.Fields = slices.Clone(s.Fields)
	if s.Category != "entry" {
		s.Fields = append(s.Fields, common...)
	}
	return s
}

// Known says whether there is such a kind.
func (k Kind) Known() bool { _, ok := specs[k]; return ok }

// Runs says whether this version of Mind runs nodes of the kind.
func (k Kind) Runs() bool { return specs[k].Runs }

// Entry says whether nodes of the kind start flows.
func (k Kind) Entry() bool { return specs[k].Category == "entry" }

// kindNames are the names of all kinds, sorted.
func kindNames() []string {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(specs)) {
		names = append(names, string(k))
	}
	return names
}
