package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/ir"
)

// FieldType says what a field of a node may be, and how the inspector edits it.
type FieldType string

// The types of fields.
const (
	Text       FieldType = "text"
	Template   FieldType = "template"   // text with {{places}}
	Expression FieldType = "expression" // text
	Name       FieldType = "name"       // text that expressions can use
	Int        FieldType = "int"
	Bool       FieldType = "bool"
	Duration   FieldType = "duration" // "90s", "7d", or seconds
	Choice     FieldType = "choice"
	List       FieldType = "list"
	Map        FieldType = "map"
	Bindings   FieldType = "bindings" // names, each with an expression
	Any        FieldType = "any"      // any JSON, with {{places}} in its texts
)

// Field describes a field of the config of a node.
type Field struct {
	Name     string    `json:"name"`
	Type     FieldType `json:"type"`
	Required bool      `json:"required,omitempty"`
	Default  any       `json:"default,omitempty"`
	Choices  []string  `json:"choices,omitempty"`
	// Min and Max bound an int; both 0: nothing does.
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
	// Ours says that ScaiFlow never published the field.
	Ours bool   `json:"ours,omitempty"`
	Help string `json:"help"`
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// model is the legacy name of llm_role.
const legacyRole = "model"

// fields checks the config of a node.
func (c *checker) fields(at place, n *Node) {
	spec := n.Type.spec()
	known := map[string]bool{legacyRole: spec.Category == "llm"}
	for i := range spec.Fields {
		f := &spec.Fields[i]
		known[f.Name] = true
		value, given := n.Config[f.Name]
		here := at.field("config." + f.Name)
		if !given || value == nil || value == "" {
			if f.Required && f.Default == nil {
				here.error("FIELD_MISSING", "node '%s': %s is missing: %s", n.ID, f.Name, lower(f.Help))
			}
			continue
		}
		if problem := f.check(value); problem != "" {
			here.error("BAD_FIELD", "node '%s': %s %s", n.ID, f.Name, problem)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Config)) {
		if !known[name] {
			at.field("config."+name).warning("UNKNOWN_FIELD", "node '%s': nodes of kind %s have no field '%s'", n.ID, n.Type, name)
		}
	}
}

// lower has the first letter of a sentence in lower case, unless the word is a name.
func lower(sentence string) string {
	first, _, _ := strings.Cut(sentence, " ")
	if first != strings.ToLower(first[:1])+first[1:] && strings.ToUpper(first) == first && len(first) > 1 {
		return sentence
	}
	return strings.ToLower(sentence[:1]) + sentence[1:]
}

// check says what is wrong with a value, or "".
func (f *Field) check(value any) string {
	text, isText := value.(string)
	switch f.Type {
	case Text, Template, Expression, Name, Choice:
		if !isText && f.Type != Expression {
			return "has to be text, and is " + typeOf(value)
		}
	}
	switch f.Type {
	case Template:
		if _, err := expr.ParseTemplate(text); err != nil {
			return "cannot be read: " + err.Error()
		}
	case Expression:
		return expression(value)
	case Name:
		if !identifier.MatchString(text) || taken[text] {
			return fmt.Sprintf("is '%s', which is no name: letters, digits and _ are allowed, and not input or trigger", text)
		}
	case Choice:
		if !slices.Contains(f.Choices, text) {
			return fmt.Sprintf("is '%s', and may be %s", text, strings.Join(f.Choices, ", "))
		}
	case Int:
		number, ok := value.(json.Number)
		n, err := number.Int64()
		if !ok || err != nil {
			return "has to be a whole number, and is " + typeOf(value)
		}
		if n < int64(f.Min) || f.Max > 0 && n > int64(f.Max) {
			return fmt.Sprintf("is %d, and may be %d to %d", n, f.Min, f.Max)
		}
	case Bool:
		if _, ok := value.(bool); !ok {
			return "has to be true or false, and is " + typeOf(value)
		}
	case Duration:
		data, _ := json.Marshal(value)
		if err := new(ir.Duration).UnmarshalJSON(data); err != nil {
			return "cannot be read: " + err.Error()
		}
	case List:
		if _, ok := value.([]any); !ok {
			return "has to be a list, and is " + typeOf(value)
		}
		return places(value)
	case Map, Bindings:
		object, ok := value.(map[string]any)
		if !ok {
			return "has to be an object, and is " + typeOf(value)
		}
		if f.Type == Map {
			return places(value)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !identifier.MatchString(name) {
				return fmt.Sprintf("binds '%s', which is no name", name)
			}
			if problem := expression(object[name]); problem != "" {
				return "." + name + " " + problem
			}
		}
	case Any:
		return places(value)
	}
	return ""
}

// expression says what is wrong with one. A text that is one place alone is the expression in it; other JSON stands for itself.
func expression(value any) string {
	data, err := json.Marshal(value)
	if err == nil {
		err = new(ir.Expr).UnmarshalJSON(data)
	}
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	return ""
}

// places says what is wrong with a place in a text of any JSON.
func places(value any) string {
	data, err := json.Marshal(value)
	if err == nil {
		err = new(ir.Value).UnmarshalJSON(data)
	}
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	return ""
}

func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case json.Number, float64, int, int64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}
