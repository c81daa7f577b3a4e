package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/expr"
)

// Expr is an expression. As JSON it is its text, or an object with text and tree; the tree is made from the text whenever one is read.
type Expr struct{ *expr.Expr }

// UnmarshalJSON implements json.Unmarshaler. A text that is one placeholder and nothing else is the expression in it.
func (e *Expr) UnmarshalJSON(data []byte) error {
	text, err := textOf(data)
	if err != nil {
		return fmt.Errorf("an expression: %w", err)
	}
	bare := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(bare, "{{"); ok && strings.HasSuffix(inner, "}}") && !strings.Contains(inner, "{{") {
		bare = strings.TrimSuffix(inner, "}}")
	}
	e.Expr, err = expr.Parse(bare)
	return wrongExpr(text, err)
}

// MarshalJSON implements json.Marshaler.
func (e *Expr) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Text string `json:"text"`
		AST  any    `json:"ast"`
	}{e.Text(), e.Tree()})
}

func textOf(data []byte) (string, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text, nil
	}
	var object struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(data, &object); err == nil && object.Text != nil {
		return *object.Text, nil
	}
	// A number, a bool or null is an expression as it stands.
	if text = strings.TrimSpace(string(data)); text != "" && text[0] != '{' && text[0] != '[' {
		return text, nil
	}
	return "", fmt.Errorf("want its text or {\"text\": ...}, got %s", clip(string(data)))
}

func wrongExpr(text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the expression %q: %w", clip(text), err)
}

func clip(text string) string {
	if len(text) > 80 {
		return text[:77] + "..."
	}
	return text
}

// Template is text with placeholders.
type Template struct{ *expr.Template }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Template) UnmarshalJSON(data []byte) error {
	text, err := textOf(data)
	if err != nil {
		return err
	}
	t.Template, err = expr.ParseTemplate(text)
	return wrongExpr(text, err)
}

// MarshalJSON implements json.Marshaler.
func (t *Template) MarshalJSON() ([]byte, error) { return json.Marshal(t.Text()) }

// Value is any JSON in which texts may have placeholders.
type Value struct {
	raw  json.RawMessage
	node any
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return err
	}
	plain, err := expr.Normalize(plain)
	if err != nil {
		return err
	}
	v.raw = slices.Clone(data)
	v.node, err = compile(plain)
	return err
}

// MarshalJSON implements json.Marshaler.
func (v *Value) MarshalJSON() ([]byte, error) { return v.raw, nil }

// compile replaces each text that has placeholders by its template.
func compile(plain any) (any, error) {
	switch p := plain.(type) {
	case string:
		t, err := expr.ParseTemplate(p)
		if err != nil {
			return nil, wrongExpr(p, err)
		}
		if t.Literal() {
			return p, nil
		}
		return t, nil
	case []any:
		out := make([]any, len(p))
		for i := range p {
			var err error
			if out[i], err = compile(p[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(p))
		for _, k := range slices.Sorted(maps.Keys(p)) {
			var err error
			if out[k], err = compile(p[k]); err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
		}
		return out, nil
	}
	return plain, nil
}

// Eval returns the value with all placeholders replaced.
func (v *Value) Eval(names expr.Names, budget *expr.Budget) (any, error) {
	if v == nil {
		return nil, nil
	}
	return fill(v.node, names, budget)
}

func fill(node any, names expr.Names, budget *expr.Budget) (any, error) {
	switch n := node.(type) {
	case *expr.Template:
		return n.Eval(names, budget)
	case []any:
		out := make([]any, len(n))
		for i := range n {
			var err error
			if out[i], err = fill(n[i], names, budget); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(n))
		for _, k := range slices.Sorted(maps.Keys(n)) {
			var err error
			if out[k], err = fill(n[k], names, budget); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return node, nil
}

// Roots are the names that its placeholders use.
func (v *Value) Roots() []string {
	if v == nil {
		return nil
	}
	seen := map[string]bool{}
	collectRoots(v.node, seen)
	return slices.Sorted(maps.Keys(seen))
}

func collectRoots(node any, into map[string]bool) {
	switch n := node.(type) {
	case *expr.Template:
		for _, name := range n.Roots() {
			into[name] = true
		}
	case []any:
		for _, e := range n {
			collectRoots(e, into)
		}
	case map[string]any:
		for _, e := range n {
			collectRoots(e, into)
		}
	}
}
