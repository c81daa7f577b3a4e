package expr

import (
	"strings"
)

// Eval returns the value of the template, and takes from the budget; a nil budget is an empty one. A template that is
// nothing but one expression has its value, of whatever type. Any other has a string, into which strings are put as
// they are, and other values as JSON. An error is an *EvalError.
func (t *Template) Eval(n Names, b *Budget) (any, error) {
	m := newMachine(n, b)
	if t.Literal() {
		if err := m.work(0, 1); err != nil {
			return nil, err
		}
		return t.Text(), nil
	}
	if len(t.Parts) == 1 {
		return m.result(t.Parts[0].Root)
	}
	var out strings.Builder
	for _, part := range t.Parts {
		text, at := part.Text, 0
		if part.Root != nil {
			at = part.Root.At
			v, err := m.eval(part.Root)
			if err != nil {
				return nil, err
			}
			if text, err = m.text(at, v); err != nil {
				return nil, err
			}
		}
		if err := m.takeString(at, len(text)); err != nil {
			return nil, err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}
