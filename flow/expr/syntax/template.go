package syntax

import "strings"

// MaxTemplate is the number of bytes that a template may have. Each expression in it may have MaxText.
const MaxTemplate = 64 << 10

// Template is a text with expressions between {{ and }}. It does not change, so any number of goroutines may use it.
type Template struct {
	text  string
	Parts []Part
	roots []string
}

// Part is a text, or an expression if it has a root.
type Part struct {
	Text string
	Root *Node
}

// ParseTemplate parses a text with any number of expressions between {{ and }}. An error is a *Error, whose
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
			t.Parts = append(t.Parts, Part{Text: text[at:]})
			break
		}
		if length > 0 {
			t.Parts = append(t.Parts, Part{Text: text[at : at+length]})
		}
		root, err := p.placeholder(at + length)
		if err != nil {
			return nil, err
		}
		t.Parts = append(t.Parts, Part{Root: root})
	}
	t.roots = p.sortedRoots()
	return t, nil
}

// placeholder parses an expression between {{ and }}, and sets the lexer to the text after it. The expression itself
// says where it ends, so a string or a map in it may have braces.
func (p *parser) placeholder(at int) (*Node, error) {
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
	return len(t.Parts) == 0 || len(t.Parts) == 1 && t.Parts[0].Root == nil
}
