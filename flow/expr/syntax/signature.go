package syntax

// Signature is how a function or a macro is called, for editors.
type Signature struct {
	Name string `json:"name"`
	// Call is how it is written: f(x), or x.f(y) for one that editors offer after a dot.
	Call string `json:"call"`
	// Of is the type of the value before the dot: string, list, map or any; "": it is written without one.
	Of      string `json:"of,omitempty"`
	Returns string `json:"returns"`
	Help    string `json:"help"`
}

var signatures = []Signature{
	{"has", "has(a.b)", "", "bool", "whether a map has a field, also if it is null"},
	{"size", "size(x)", "", "int", "the number of characters, elements or entries"},
	{"type", "type(x)", "", "string", "null, bool, int, double, string, list or map"},
	{"int", "int(x)", "", "int", "of a double, cut off after the point; of a decimal string"},
	{"double", "double(x)", "", "double", "of an int; of a decimal string"},
	{"string", "string(x)", "", "string", "a string as it is, anything else as JSON"},
	{"bool", "bool(x)", "", "bool", `of "true" or "false"`},
	{"abs", "abs(n)", "", "number", "the number without its sign"},
	{"min", "min(a, b, …)", "", "number", "the least; also of one list of numbers"},
	{"max", "max(a, b, …)", "", "number", "the greatest; also of one list of numbers"},
	{"round", "round(n)", "", "int", "the nearest int, halves away from zero"},
	{"floor", "floor(n)", "", "int", "the next lower int"},
	{"ceil", "ceil(n)", "", "int", "the next higher int"},
	{"sum", "sum(x)", "", "number", "of a list of numbers; 0 for none"},
	{"range", "range(from, to)", "", "list", "the ints from 0 or from, up to and without the last"},
	{"keys", "keys(m)", "", "list", "the keys of a map, in order"},
	{"values", "values(m)", "", "list", "the values of a map, in the order of the keys"},
	{"contains", "s.contains(t)", "string", "bool", "whether t is in s"},
	{"startsWith", "s.startsWith(t)", "string", "bool", "whether t is at its begin"},
	{"endsWith", "s.endsWith(t)", "string", "bool", "whether t is at its end"},
	{"indexOf", "s.indexOf(t)", "string", "int", "how many characters are before the first t; -1 if it has none"},
	{"substring", "s.substring(a, b)", "string", "string", "the characters from a up to, and without, b; the first is 0"},
	{"lower", "s.lower()", "string", "string", "in lower case"},
	{"upper", "s.upper()", "string", "string", "in upper case"},
	{"trim", "s.trim()", "string", "string", "without white space around it"},
	{"replace", "s.replace(old, new)", "string", "string", "with each old replaced"},
	{"split", "s.split(t)", "string", "list", "the parts between each t"},
	{"join", "x.join(t)", "list", "string", "a list of strings as one, with t between them"},
	{"all", "x.all(e, condition)", "list", "bool", "the condition holds for each element e"},
	{"exists", "x.exists(e, condition)", "list", "bool", "the condition holds for one element at least"},
	{"exists_one", "x.exists_one(e, condition)", "list", "bool", "the condition holds for exactly one element"},
	{"filter", "x.filter(e, condition)", "list", "list", "the elements for which the condition holds"},
	{"map", "x.map(e, value)", "list", "list", "the value for each element e"},
}

// Signatures describes all functions and macros.
func Signatures() []Signature { return append([]Signature{}, signatures...) }

// Use is a place at which an expression uses a name, in bytes from the begin of the text.
type Use struct {
	Name     string
	From, To int
}

// Uses returns the places at which an evaluation may look up a name, in the order of the text.
func (e *Expr) Uses() []Use { return e.Root.uses(nil) }

// Uses returns the places at which an evaluation may look up a name, in the order of the text.
func (t *Template) Uses() []Use {
	var all []Use
	for _, p := range t.Parts {
		if p.Root != nil {
			all = p.Root.uses(all)
		}
	}
	return all
}

func (n *Node) uses(all []Use) []Use {
	if n.Op == OpGet {
		all = append(all, Use{n.Name, n.At, n.At + len(n.Name)})
	}
	for _, arg := range n.Args {
		all = arg.uses(all)
	}
	return all
}
