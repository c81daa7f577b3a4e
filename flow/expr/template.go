package expr

import "strings"

// MaxTemplate is the number of bytes that a template may have. Each expression in it may have MaxText.
const MaxTemplate = 64 << 10

// Template is a text with expressions between {{ and }}. It does not change, so any number of goroutines may use it.
type Template struct {
	text  string
	parts []part
	roots []string
}

// part is a text, or an expression if it has a root.
type part struct {
	text string
	root *node
}

// ParseTemplate parses a text with any number of expressions between {{ and }}. An error is a *SyntaxError, whose
// offset counts from the begin of the text.
func ParseTemplate(text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, syntax(MaxTemplate, "expected the end: a template has at most %d bytes", MaxTemplate)
	}
	if at := invalidAt(text); at >= 0 {
		return nil, syntax(at, "expected UTF-8")
	}
	t := &Template{text: text}
	p := parser{lexer: lexer{text: text}}
	for at := 0; at < len(text); at = p.lexer.pos {
		length := strings.Index(text[at:], "{{")
		if length < 0 {
			t.parts = append(t.parts, part{text: text[at:]})
			break
		}
		if length > 0 {
			t.parts = append(t.parts, part{text: text[at : at+length]})
		}
		root, err := p.placeholder(at + length)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{root: root})
	}
	t.roots = p.sortedRoots()
	return t, nil
}

// placeholder parses an expression between {{ and }}, and sets the lexer to the text after it. The expression itself
// says where it ends, so a string or a map in it may have braces.
func (p *parser) placeholder(at int) (*node, error) {
	const mark = 2 // the length of {{ and of }}
	p.lexer.pos = at + mark
	p.lexer.limit = p.lexer.pos + MaxText
	root, err := p.whole()
	if err != nil {
		return nil, err
	}
	if !p.token.is("}") || !strings.HasPrefix(p.lexer.text[p.token.at:], "}}") {
		return nil, p.expected("an operator or }}")
	}
	p.lexer.pos = p.token.at + mark
	return root, nil
}

// Text returns the template as it was written.
func (t *Template) Text() string { return t.text }

// Roots returns the names that an evaluation may look up, sorted, each once.
func (t *Template) Roots() []string { return append([]string{}, t.roots...) }

// Literal says that the template has no expression, so that its value is its text.
func (t *Template) Literal() bool {
	return len(t.parts) == 0 || len(t.parts) == 1 && t.parts[0].root == nil
}

// Eval returns the value of the template, and takes from the budget; a nil budget is an empty one. A template that is
// nothing but one expression has its value, of whatever type. Any other has a string, into which strings are put as
// they are, and other values as JSON. An error is an *EvalError.
func (t *Template) Eval(n Names, b *Budget) (any, error) {
	m := newMachine(n, b)
	if t.Literal() {
		if err := m.work(0, 1); err != nil {
			return nil, err
		}
		return t.text, nil
	}
	if len(t.parts) == 1 {
		return m.result(t.parts[0].root)
	}
	var out strings.Builder
	for _, part := range t.parts {
		text, at := part.text, 0
		if part.root != nil {
			at = part.root.at
			v, err := m.eval(part.root)
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
