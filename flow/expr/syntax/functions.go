package syntax

import "strconv"

// Function is a function of the language. Called as x.f(y) it is the same as f(x, y).
type Function struct {
	Name string
	// Least and Most are how many arguments it takes.
	Least, Most int
	// Index counts the functions from 0, for a table of what they do.
	Index int
}

// maxArgs is how many arguments min and max take.
const maxArgs = 64

// Functions has all functions by their names.
var Functions = byName(
	Function{Name: "size", Least: 1, Most: 1},
	Function{Name: "int", Least: 1, Most: 1},
	Function{Name: "double", Least: 1, Most: 1},
	Function{Name: "string", Least: 1, Most: 1},
	Function{Name: "bool", Least: 1, Most: 1},
	Function{Name: "type", Least: 1, Most: 1},
	Function{Name: "abs", Least: 1, Most: 1},
	Function{Name: "min", Least: 1, Most: maxArgs},
	Function{Name: "max", Least: 1, Most: maxArgs},
	Function{Name: "round", Least: 1, Most: 1},
	Function{Name: "floor", Least: 1, Most: 1},
	Function{Name: "ceil", Least: 1, Most: 1},
	Function{Name: "sum", Least: 1, Most: 1},
	Function{Name: "range", Least: 1, Most: 2},
	Function{Name: "keys", Least: 1, Most: 1},
	Function{Name: "values", Least: 1, Most: 1},
	Function{Name: "contains", Least: 2, Most: 2},
	Function{Name: "startsWith", Least: 2, Most: 2},
	Function{Name: "endsWith", Least: 2, Most: 2},
	Function{Name: "indexOf", Least: 2, Most: 2},
	Function{Name: "lower", Least: 1, Most: 1},
	Function{Name: "upper", Least: 1, Most: 1},
	Function{Name: "trim", Least: 1, Most: 1},
	Function{Name: "split", Least: 2, Most: 2},
	Function{Name: "replace", Least: 3, Most: 3},
	Function{Name: "join", Least: 1, Most: 2},
	Function{Name: "substring", Least: 2, Most: 3},
)

func byName(all ...Function) map[string]*Function {
	m := make(map[string]*Function, len(all))
	for i := range all {
		all[i].Index = i
		m[all[i].Name] = &all[i]
	}
	return m
}

// call parses the arguments of a function. target is the first of them if it is called as target.name(), and nil
// otherwise. The token is the opening parenthesis.
func (p *parser) call(name token, target *Node) (*Node, error) {
	f := Functions[name.text]
	if f == nil {
		what := "a function"
		if _, ok := Macros[name.text]; ok {
			what = "a list before ." + name.text
		}
		return nil, syntax(name.at, "expected %s, but %s is none", what, name.text)
	}
	args, err := p.elements(")")
	if err != nil {
		return nil, err
	}
	if target != nil {
		args = append([]*Node{target}, args...)
	}
	if len(args) < f.Least || len(args) > f.Most {
		count := strconv.Itoa(f.Least)
		if f.Most > f.Least {
			count += " to " + strconv.Itoa(f.Most)
		}
		return nil, syntax(name.at, "expected %s arguments of %s, counting a value before its dot, found %d", count, f.Name, len(args))
	}
	return p.made(Node{Op: OpCall, At: name.at, Function: f, Args: args})
}
