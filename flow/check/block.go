package check

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/ir"
)

const (
	// maxConcurrent is how many bodies run beside each other.
	maxConcurrent = 256
	maxIterations = 100_000
	maxRetries    = 100
	maxOptions    = 32
	maxSchema     = 16 << 10
)

// block checks the fields of a block, each for itself.
func (c *checker) block(here place, b *ir.Block) {
	if !b.Kind.Known() {
		here.error("BAD_KIND", "there is no block of kind %q", b.Kind)
		return
	}
	if !b.Kind.Runs() {
		here.error("NOT_SUPPORTED", "this version of Mind does not run blocks of kind %s: they call a model, which is outside of the cluster", b.Kind)
	}
	for _, name := range b.Strange() {
		here.error("UNKNOWN_FIELD", "blocks of kind %s have no field %q", b.Kind, name)
	}
	if b.ResultBinding != "" && (!identifier.MatchString(b.ResultBinding) || slices.Contains(given, b.ResultBinding)) {
		here.field("result_binding").error("BAD_NAME", "%q is no name for a result: letters, digits and _ are allowed, and not input or trigger", b.ResultBinding)
	}
	if r := b.Retry; r != nil && (r.Max < 0 || r.Max > maxRetries) {
		here.field("retry").error("BAD_RETRY", "retry.max is %d, and 0 to %d are allowed", r.Max, maxRetries)
	}
	for i := range b.OnFailure {
		if a := b.OnFailure[i].Action; !slices.Contains([]string{"continue", "checkpoint", "fail"}, a) {
			here.field("on_failure").error("BAD_ACTION", "%q is nothing to do on a failure: continue, checkpoint and fail are", a)
		}
	}
	switch b.Kind {
	case ir.Rigid:
		c.rigid(here, b)
	case ir.If, ir.Match:
		c.branches(here, b)
	case ir.Foreach, ir.While:
		c.loop(here, b)
	case ir.Parallel:
		c.parallel(here, b)
	case ir.Try:
		if len(b.Body) == 0 {
			here.error("EMPTY_BODY", "the try has nothing to try: its body is empty")
		}
		if b.Catch == nil && b.Finally == nil {
			here.warning("USELESS_TRY", "the try has neither a catch nor a finally")
		}
	case ir.CoreCall:
		if b.Target == "" {
			here.error("FIELD_MISSING", "the call has no target: name a Core by its slug, or as core://TENANT/SLUG, or self")
		}
	case ir.Wait:
		c.wait(here, b)
	case ir.Checkpoint:
		c.checkpoint(here, b)
	case ir.Compute:
		c.compute(here, b)
	}
}

func (c *checker) rigid(here place, b *ir.Block) {
	if len(b.Statements) == 0 {
		here.warning("EMPTY_BODY", "the block does nothing: it has no statements")
	}
	for i := range b.Statements {
		s := &b.Statements[i]
		in := here.field("statements[" + itoa(i) + "]")
		for _, name := range s.Strange() {
			in.error("UNKNOWN_FIELD", "%s statements have no field %q", s.Kind, name)
		}
		switch s.Kind {
		case ir.StatementExpression:
			if s.Expression == nil && s.Template == nil {
				in.error("FIELD_MISSING", "the expression statement has no expression")
			}
		case ir.StatementAssign:
			if !identifier.MatchString(s.Name) || slices.Contains(given, s.Name) {
				in.error("BAD_NAME", "%q is no name that can be assigned", s.Name)
			}
			if s.Value == nil {
				in.error("FIELD_MISSING", "the assignment to %q has no value", s.Name)
			}
		case ir.StatementEmit:
			if s.Event == "" || strings.HasPrefix(s.Event, "scaicore.") {
				in.error("BAD_NAME", "%q is no name for an event of a program: it has one, and it does not begin with scaicore.", s.Event)
			}
		case ir.StatementReturn, ir.StatementFail:
			if i < len(b.Statements)-1 {
				in.warning("UNREACHABLE", "nothing after the %s runs", s.Kind)
			}
		case "plugin_call", "http_call", "memory_get", "memory_set":
			in.error("NOT_SUPPORTED", "this version of Mind does not run %s statements", s.Kind)
		default:
			in.error("BAD_KIND", "there is no statement of kind %q", s.Kind)
		}
	}
}

func (c *checker) branches(here place, b *ir.Block) {
	if b.Kind == ir.If {
		if len(b.Cases) == 0 {
			here.error("FIELD_MISSING", "the if has no cases")
		}
		for i := range b.Cases {
			if b.Cases[i].When == nil {
				here.field("cases["+itoa(i)+"]").error("FIELD_MISSING", "the case has no condition")
			}
		}
		return
	}
	if b.Subject == nil {
		here.error("FIELD_MISSING", "the match has no subject")
	}
	if len(b.Arms) == 0 {
		here.error("FIELD_MISSING", "the match has no arms")
	}
}

func (c *checker) loop(here place, b *ir.Block) {
	if len(b.Body) == 0 {
		here.error("EMPTY_BODY", "the loop does nothing: its body is empty")
	}
	if b.Kind == ir.While {
		switch {
		case b.MaxIterations == 0:
			here.error("NO_MAX_ITERATIONS", "while loop missing max_iterations")
		case b.MaxIterations < 0 || b.MaxIterations > maxIterations:
			here.error("BAD_LIMIT", "max_iterations is %d, and 1 to %d are allowed", b.MaxIterations, maxIterations)
		}
		if b.When == nil {
			here.error("FIELD_MISSING", "the while has no condition (when)")
		}
		return
	}
	if b.Items == nil {
		here.error("FIELD_MISSING", "the foreach has no items")
	}
	if b.Var != "" && (!identifier.MatchString(b.Var) || slices.Contains(given, b.Var)) {
		here.field("var").error("BAD_NAME", "%q is no name for the item", b.Var)
	}
	c.width(here, b)
}

func (c *checker) width(here place, b *ir.Block) {
	if b.MaxConcurrent < 0 || b.MaxConcurrent > maxConcurrent {
		here.error("BAD_LIMIT", "max_concurrent is %d, and at most %d are allowed", b.MaxConcurrent, maxConcurrent)
	}
}

func (c *checker) parallel(here place, b *ir.Block) {
	if len(b.Branches) == 0 || len(b.Branches) > maxConcurrent {
		here.error("BAD_LIMIT", "the parallel has %d branches, and 1 to %d are allowed", len(b.Branches), maxConcurrent)
	}
	if b.Join != "" && b.Join != "all" && b.Join != "any" {
		here.error("BAD_JOIN", "join is %q, and all or any are allowed", b.Join)
	}
	c.width(here, b)
	names, binds := map[string]bool{}, map[string]string{}
	for i := range b.Branches {
		branch := &b.Branches[i]
		if branch.Name == "" || names[branch.Name] {
			here.field("branches["+itoa(i)+"]").error("BAD_NAME", "the branch has no name of its own: %q", branch.Name)
		}
		names[branch.Name] = true
		ir.Walk("", branch.Body, func(_ string, inner *ir.Block) {
			name := inner.ResultBinding
			if other, taken := binds[name]; name != "" && taken && other != branch.Name {
				here.error("NAME_TWICE", "the branches %q and %q both bind %q", other, branch.Name, name)
			}
			binds[name] = branch.Name
		})
	}
}

func (c *checker) wait(here place, b *ir.Block) {
	ways := 0
	for _, has := range []bool{b.Duration != nil, b.Until != nil, b.Event != "", b.Callback != nil} {
		if has {
			ways++
		}
	}
	if ways != 1 {
		here.error("BAD_WAIT", "a wait has one of duration, until, event and callback, and this one has %d", ways)
	}
	if b.Callback != nil {
		here.error("NOT_SUPPORTED", "this version of Mind does not wait for callbacks")
	}
	if b.Duration != nil && b.Duration.Literal() {
		if _, err := ir.ParseDuration(b.Duration.Text()); err != nil {
			here.field("duration").error("BAD_DURATION", "%v", err)
		}
	}
}

func (c *checker) checkpoint(here place, b *ir.Block) {
	if b.Prompt == nil || strings.TrimSpace(b.Prompt.Text()) == "" {
		here.error("FIELD_MISSING", "the checkpoint asks nothing: it has no prompt")
	}
	if b.Type == "failure" {
		here.field("type").error("BAD_NAME", "the type %q is that of questions about failed steps", b.Type)
	}
	if len(b.Options) > 0 && len(b.Schema) > 0 {
		here.error("BAD_ANSWER", "a checkpoint has options or a schema, and this one has both")
	}
	if len(b.Options) > maxOptions {
		here.error("BAD_LIMIT", "there are %d options, and at most %d are allowed", len(b.Options), maxOptions)
	}
	ids := map[string]bool{}
	for _, o := range b.Options {
		if o.ID == "" || ids[o.ID] {
			here.field("options").error("BAD_NAME", "an option has no id of its own: %q", o.ID)
		}
		ids[o.ID] = true
	}
	if len(b.Schema) > maxSchema {
		here.error("BAD_LIMIT", "the schema has %d bytes, and at most %d are allowed", len(b.Schema), maxSchema)
	} else if len(b.Schema) > 0 && !json.Valid(b.Schema) {
		here.error("BAD_SCHEMA", "the schema is no JSON")
	}
	if !slices.Contains([]string{"", "low", "normal", "high", "critical"}, b.Priority) {
		here.error("BAD_PRIORITY", "the priority is %q: low, normal, high and critical are allowed", b.Priority)
	}
	action, option, _ := strings.Cut(b.OnTimeout, ":")
	switch action {
	case "", "fail", "continue":
	case "escalate":
		if b.EscalationTarget == "" {
			here.error("FIELD_MISSING", "on_timeout escalates, and there is no escalation_target")
		}
	case "resolve":
		if !ids[option] {
			here.error("BAD_ACTION", "on_timeout resolves as %q, which is no option", option)
		}
	default:
		here.error("BAD_ACTION", "on_timeout is %q: fail, continue, escalate and resolve:OPTION are allowed", b.OnTimeout)
	}
	if url := b.NotifyURL; url != "" && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		here.field("notify_url").error("BAD_URL", "notify_url is %q: write a URL such as https://HOST/PATH; it has no placeholders", url)
	}
	if q := b.Quorum; q != nil && (q.Needed < 1 || q.Of != 0 && q.Of < q.Needed || q.Needed > maxConcurrent) {
		here.error("BAD_LIMIT", "a quorum of %d of %d is not possible", q.Needed, q.Of)
	}
	for i := range b.OnResponse {
		for _, v := range b.OnResponse[i].Values {
			if id, ok := v.(string); len(ids) > 0 && (!ok || !ids[id]) {
				here.field("on_response["+itoa(i)+"]").error("BAD_ANSWER", "%v is no option of the checkpoint", v)
			}
		}
	}
}

func (c *checker) compute(here place, b *ir.Block) {
	switch b.Action {
	case "train", "evaluate", "job":
		if b.Spec == nil {
			here.error("FIELD_MISSING", "the compute block has no spec: write the body of the REST request of the job")
		}
		if !slices.Contains([]string{"", "end", "start", "none"}, b.WaitFor) {
			here.error("BAD_WAIT", "wait is %q: end, start and none are allowed", b.WaitFor)
		}
	case "pause", "resume", "cancel":
		if b.Job == nil {
			here.error("FIELD_MISSING", "there is no job to %s", b.Action)
		}
	default:
		here.error("BAD_ACTION", "there is no action %q: train, evaluate, job, pause, resume and cancel are", b.Action)
	}
}
