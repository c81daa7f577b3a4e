package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/flow/ir"
)

func itoa(i int) string { return strconv.Itoa(i) }

// scope has the names that are bound in a flow, or in each iteration of a foreach, and those around them.
type scope struct {
	names map[string]bool
	outer *scope
	// elsewhere are all names that the flow binds anywhere.
	elsewhere map[string]bool
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.names[name] {
			return true
		}
	}
	return false
}

// within returns the scope of a body that has names of its own.
func (s *scope) within(blocks []ir.Block) *scope {
	inner := &scope{map[string]bool{}, s, s.elsewhere}
	inner.bind(blocks)
	return inner
}

// bind adds the names that blocks bind.
func (s *scope) bind(blocks []ir.Block) {
	for i := range blocks {
		b := &blocks[i]
		s.add(b)
		for below, inner := range b.Bodies() {
			if below != "body" || b.Kind != ir.Foreach {
				s.bind(inner)
			}
		}
	}
}

func (s *scope) add(b *ir.Block) {
	for _, name := range []string{b.ID, b.ResultBinding} {
		if name != "" {
			s.names[name] = true
		}
	}
	for i := range b.Statements {
		if b.Statements[i].Kind == ir.StatementAssign {
			s.names[b.Statements[i].Name] = true
		}
	}
}

// names reports expressions that use a name that nothing binds.
func (c *checker) names(path string, f *ir.Flow) {
	anywhere := &scope{names: map[string]bool{}}
	f.Walk(path, func(_ string, b *ir.Block) { anywhere.add(b) })
	known := &scope{map[string]bool{}, nil, anywhere.names}
	for _, name := range given {
		known.names[name] = true
	}
	for _, v := range c.module.Variables {
		known.names[v.Name] = true
	}
	known.bind(f.Body)
	known.bind(f.OnCancel)
	c.body(path+".body", f.Body, known, nil)
	c.body(path+".on_cancel", f.OnCancel, known, nil)
}

// body checks the names of a list of blocks; local are those that are bound around it and nowhere else.
func (c *checker) body(path string, blocks []ir.Block, known *scope, local []string) {
	for i := range blocks {
		b := &blocks[i]
		here := c.at(path+"["+itoa(i)+"]", b)
		inputs := slices.Concat(local, slices.Sorted(maps.Keys(b.InputBindings)))
		iteration := known
		if b.Kind == ir.Foreach {
			iteration = known.within(b.Body)
		}
		c.uses(here, b, known, iteration, local, inputs)
		for below, inner := range b.Bodies() {
			within, names := local, known
			switch list, _, _ := strings.Cut(below, "["); {
			case below == "body" && b.Kind == ir.Foreach:
				within, names = slices.Concat(local, []string{item(b), "index"}), iteration
			case below == "catch", list == "on_failure":
				within = slices.Concat(local, []string{"error"})
			case below == "compensate":
				within = slices.Concat(local, []string{"result"})
			}
			c.body(here.path+"."+below, inner, names, within)
		}
	}
}

func item(b *ir.Block) string {
	if b.Var == "" {
		return "item"
	}
	return b.Var
}

// uses checks the names in the expressions of a block. iteration is the scope of a foreach's body.
func (c *checker) uses(here place, b *ir.Block, known, iteration *scope, local, inputs []string) {
	in := known
	check := func(field string, roots, also []string) {
		for _, name := range roots {
			if in.has(name) || slices.Contains(also, name) {
				continue
			}
			says := "nothing binds"
			switch {
			case known.elsewhere[name]:
				says = "a foreach binds: it ends with each iteration, so let the loop collect it"
			case !c.full(SeverityError):
				says += near(name, in, also)
			}
			here.field(field).error("UNKNOWN_NAME", "%s uses the name %q, which %s", field, name, says)
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
		s, at := &b.Statements[i], "statements["+itoa(i)+"]."
		one(at+"expression", s.Expression, inputs)
		text(at+"template", s.Template, inputs)
		one(at+"value", s.Value, inputs)
		check(at+"data", s.Data.Roots(), inputs)
		text(at+"message", s.Message, inputs)
	}
	for i := range b.Cases {
		one("cases["+itoa(i)+"].when", b.Cases[i].When, inputs)
	}
	one("subject", b.Subject, inputs)
	one("items", b.Items, inputs)
	one("when", b.When, inputs)
	in = iteration
	one("collect", b.Collect, slices.Concat(local, []string{item(b), "index"}))
	in = known
	one("until", b.Until, inputs)
	text("duration", b.Duration, inputs)
	text("instance_key", b.InstanceKey, local)
	text("prompt", b.Prompt, inputs)
	text("assignee", b.Assignee, inputs)
	text("subject_digest", b.SubjectDigest, inputs)
	check("context", b.Context.Roots(), inputs)
	check("values", b.Values.Roots(), inputs)
	check("spec", b.Spec.Roots(), inputs)
	text("job", b.Job, inputs)
}

// near suggests a known name that differs by a letter or by case.
func near(name string, known *scope, also []string) string {
	candidates := slices.Clone(also)
	for ; known != nil; known = known.outer {
		candidates = append(candidates, slices.Sorted(maps.Keys(known.names))...)
	}
	for _, candidate := range candidates {
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
		if circle := reach(start, start, edges, nil, map[string]bool{}); circle != nil {
			c.at("flows", nil).warning("CYCLE", "cycle detected: %s; calls are at most 8 deep", strings.Join(circle, " -> "))
			return
		}
	}
}

// reach returns a way from one flow to another. A flow that was seen before leads nowhere.
func reach(from, to string, edges map[string][]string, path []string, seen map[string]bool) []string {
	path = append(path, from)
	seen[from] = true
	for _, next := range edges[from] {
		if next == to {
			return append(path, to)
		}
		if !seen[next] {
			if found := reach(next, to, edges, path, seen); found != nil {
				return found
			}
		}
	}
	return nil
}
