package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/flow/ir"
)

func itoa(i int) string { return strconv.Itoa(i) }

// names reports expressions that use a name that nothing binds, and results that are never used by that name.
func (c *checker) names(path string, f *ir.Flow) {
	known := map[string]bool{}
	for _, name := range given {
		known[name] = true
	}
	for _, v := range c.module.Variables {
		known[v.Name] = true
	}
	f.Walk(path, func(_ string, b *ir.Block) {
		known[b.ID], known[b.ResultBinding] = true, true
		for i := range b.Statements {
			if b.Statements[i].Kind == ir.StatementAssign {
				known[b.Statements[i].Name] = true
			}
		}
	})
	delete(known, "")
	c.body(path+".body", f.Body, known, nil)
	c.body(path+".on_cancel", f.OnCancel, known, nil)
}

// body checks the names of a list of blocks; local are those that are bound around it and nowhere else.
func (c *checker) body(path string, blocks []ir.Block, known map[string]bool, local []string) {
	for i := range blocks {
		b := &blocks[i]
		here := c.at(path+"["+itoa(i)+"]", b)
		inputs := slices.Concat(local, slices.Sorted(maps.Keys(b.InputBindings)))
		c.uses(here, b, known, local, inputs)
		for below, inner := range b.Bodies() {
			within := local
			switch list, _, _ := strings.Cut(below, "["); {
			case below == "body" && b.Kind == ir.Foreach:
				within = slices.Concat(local, []string{item(b), "index"})
			case below == "catch", list == "on_failure":
				within = slices.Concat(local, []string{"error"})
			case below == "compensate":
				within = slices.Concat(local, []string{"result"})
			}
			c.body(here.path+"."+below, inner, known, within)
		}
	}
}

func item(b *ir.Block) string {
	if b.Var == "" {
		return "item"
	}
	return b.Var
}

// uses checks the names in the expressions of a block.
func (c *checker) uses(here place, b *ir.Block, known map[string]bool, local, inputs []string) {
	check := func(field string, roots, also []string) {
		for _, name := range roots {
			if known[name] || slices.Contains(also, name) {
				continue
			}
			here.field(field).error("UNKNOWN_NAME", "%s uses the name %q, which nothing binds%s", field, name, near(name, known, also))
		}
	}
	one := func(field string, e *ir.Expr, also []string) {
		if e != nil && e.Expr != nil {
			check(field, e.Roots(), also)
		}
	}
	text := func(field string, t *ir.Template, also []string) {
		if t != nil && t.Template != nil {
			check(field, t.Roots(), also)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.InputBindings)) {
		one("input_bindings."+name, b.InputBindings[name], local)
	}
	for i := range b.Statements {
		s, in := &b.Statements[i], "statements["+itoa(i)+"]."
		one(in+"expression", s.Expression, inputs)
		text(in+"template", s.Template, inputs)
		one(in+"value", s.Value, inputs)
		check(in+"data", s.Data.Roots(), inputs)
		text(in+"message", s.Message, inputs)
	}
	for i := range b.Cases {
		one("cases["+itoa(i)+"].when", b.Cases[i].When, local)
	}
	one("subject", b.Subject, local)
	one("items", b.Items, local)
	one("when", b.When, local)
	one("collect", b.Collect, slices.Concat(local, []string{item(b), "index"}))
	one("until", b.Until, local)
	text("duration", b.Duration, local)
	text("instance_key", b.InstanceKey, local)
	text("prompt", b.Prompt, local)
	text("assignee", b.Assignee, local)
	text("subject_digest", b.SubjectDigest, local)
	check("context", b.Context.Roots(), local)
	check("values", b.Values.Roots(), local)
	check("spec", b.Spec.Roots(), inputs)
	text("job", b.Job, inputs)
}

// near suggests a known name that differs by a letter or by case.
func near(name string, known map[string]bool, also []string) string {
	for _, candidate := range slices.Concat(slices.Sorted(maps.Keys(known)), also) {
		if strings.EqualFold(candidate, name) || oneEdit(candidate, name) {
			return "; is " + strconv.Quote(candidate) + " meant?"
		}
	}
	return ""
}

// oneEdit says whether one letter more, less or other makes a of b.
func oneEdit(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 || len(b) < 3 {
		return false
	}
	for i := range b {
		if a[i] != b[i] {
			return a[i+1:] == b[i+1-(len(a)-len(b)):]
		}
	}
	return true
}

// calls reports flows of the program that call each other in a circle without a way out of it.
func (c *checker) calls() {
	edges := map[string][]string{}
	for i := range c.module.Flows {
		f := &c.module.Flows[i]
		f.Walk("", func(_ string, b *ir.Block) {
			if b.Kind != ir.CoreCall || b.Target != "self" {
				return
			}
			name := b.Flow
			if name == "" {
				name = c.module.Flows[0].Name
			}
			if _, ok := c.module.Flow(name); !ok {
				c.at("", b).error("NO_FLOW", "the call is of the flow %q, which the program does not have", name)
				return
			}
			edges[f.Name] = append(edges[f.Name], name)
		})
	}
	for _, start := range slices.Sorted(maps.Keys(edges)) {
		if circle := reach(start, start, edges, nil); circle != nil {
			c.at("flows", nil).warning("CYCLE", "cycle detected: %s; calls are at most 8 deep", strings.Join(circle, " -> "))
			return
		}
	}
}

func reach(from, to string, edges map[string][]string, path []string) []string {
	path = append(path, from)
	for _, next := range edges[from] {
		if next == to {
			return append(path, to)
		}
		if !slices.Contains(path, next) {
			if found := reach(next, to, edges, path); found != nil {
				return found
			}
		}
	}
	return nil
}
