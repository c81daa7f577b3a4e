package expr

import "github.com/mindcoordinator/mind/flow/expr/syntax"

// Limits of texts, in bytes, and of how deep expressions and values may be nested.
const (
	MaxText     = syntax.MaxText
	MaxTemplate = syntax.MaxTemplate
	MaxDepth    = syntax.MaxDepth
)

// Expr is a parsed expression. It does not change, so any number of goroutines may use it.
type Expr struct{ *syntax.Expr }

// Parse parses an expression. An error is a *syntax.Error.
func Parse(text string) (*Expr, error) {
	e, err := syntax.Parse(text)
	if err != nil {
		return nil, err
	}
	return &Expr{e}, nil
}

// Template is a text with expressions between {{ and }}. It does not change, so any number of goroutines may use it.
type Template struct{ *syntax.Template }

// ParseTemplate parses a text with any number of expressions between {{ and }}. An error is a *syntax.Error, whose offset counts
// from the begin of the text.
func ParseTemplate(text string) (*Template, error) {
	t, err := syntax.ParseTemplate(text)
	if err != nil {
		return nil, err
	}
	return &Template{t}, nil
}
