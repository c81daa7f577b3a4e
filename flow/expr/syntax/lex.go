package syntax

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error says where a text is no expression, and what was expected there.
type Error struct {
	Offset  int // in bytes, from the begin of the text
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("at offset %d: %s", e.Offset, e.Message) }

func syntax(at int, format string, args ...any) error {
	return &Error{Offset: at, Message: fmt.Sprintf(format, args...)}
}

type kind uint8

const (
	kindEnd kind = iota
	kindName
	kindInt
	kindDouble
	kindString
	kindSymbol // an operator or a bracket, and the word in
)

// token is one word of an expression. text is the text of a name, a number or a symbol, and the content of a string.
type token struct {
	kind kind
	at   int
	text string
}

func (t token) is(symbol string) bool { return t.kind == kindSymbol && t.text == symbol }

// String returns the token as messages quote it.
func (t token) String() string {
	switch t.kind {
	case kindEnd:
		return "the end"
	case kindString:
		return "a string"
	}
	return t.text
}

// reserved are the words of CEL that cannot be names, although the language has no use for them yet.
var reserved = map[string]bool{
	"as": true, "break": true, "const": true, "continue": true, "else": true, "for": true, "function": true,
	"if": true, "import": true, "let": true, "loop": true, "package": true, "namespace": true, "return": true,
	"var": true, "void": true, "while": true,
}

// lexer splits a text into tokens, one at a time: a template goes on as text where its expression ends.
type lexer struct {
	text  string
	pos   int
	limit int // no token begins after it
}

func (l *lexer) next() (token, error) {
	l.space()
	at := l.pos
	if at > l.limit {
		return token{}, syntax(l.limit, "expected }}: an expression has at most %d bytes", MaxText)
	}
	if at == len(l.text) {
		return token{kind: kindEnd, at: at}, nil
	}
	c := l.text[at]
	switch {
	case isLetter(c):
		if quote := l.prefixed(); quote > 0 {
			return l.quoted(at, quote)
		}
		for l.pos < len(l.text) && (isLetter(l.text[l.pos]) || isDigit(l.text[l.pos])) {
			l.pos++
		}
		if name := l.text[at:l.pos]; name != "in" {
			return token{kind: kindName, at: at, text: name}, nil
		}
		return token{kind: kindSymbol, at: at, text: "in"}, nil
	case isDigit(c), c == '.' && at+1 < len(l.text) && isDigit(l.text[at+1]):
		return l.number()
	case c == '"' || c == '\'':
		return l.quoted(at, 0)
	}
	for _, symbol := range []string{"&&", "||", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(l.text[at:], symbol) {
			l.pos += 2
			return token{kind: kindSymbol, at: at, text: symbol}, nil
		}
	}
	if strings.IndexByte("<>+-*/%!?:.,()[]{}", c) >= 0 {
		l.pos++
		return token{kind: kindSymbol, at: at, text: l.text[at:l.pos]}, nil
	}
	if strings.IndexByte("&|=", c) >= 0 {
		return token{}, syntax(at, "expected %c%c, found a single %c", c, c, c)
	}
	r, _ := utf8.DecodeRuneInString(l.text[at:])
	return token{}, syntax(at, "expected a name, a literal or an operator, found %q", r)
}

// space skips white space and comments, which begin with // and end with the line.
func (l *lexer) space() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			l.pos++
		case strings.HasPrefix(l.text[l.pos:], "//"):
			for l.pos < len(l.text) && l.text[l.pos] != '\n' {
				l.pos++
			}
		default:
			return
		}
	}
}

// prefixed returns the length of the prefix of a string, such as r in r"\d", or 0 if a name begins here.
func (l *lexer) prefixed() int {
	for n := 1; n <= 2 && l.pos+n < len(l.text); n++ {
		if c := l.text[l.pos+n]; c == '"' || c == '\'' {
			return n
		} else if !isLetter(c) {
			return 0
		}
	}
	return 0
}

func (l *lexer) number() (token, error) {
	t := token{kind: kindInt, at: l.pos}
	if rest := l.text[l.pos:]; strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0X") {
		l.pos += 2
		if l.digits(isHex) == 0 {
			return t, syntax(l.pos, "expected a hexadecimal digit")
		}
	} else {
		l.digits(isDigit)
		if l.pos+1 < len(l.text) && l.text[l.pos] == '.' && isDigit(l.text[l.pos+1]) {
			t.kind = kindDouble
			l.pos++
			l.digits(isDigit)
		}
		if l.pos < len(l.text) && (l.text[l.pos] == 'e' || l.text[l.pos] == 'E') {
			t.kind = kindDouble
			l.pos++
			if l.pos < len(l.text) && (l.text[l.pos] == '+' || l.text[l.pos] == '-') {
				l.pos++
			}
			if l.digits(isDigit) == 0 {
				return t, syntax(l.pos, "expected a digit of the exponent")
			}
		}
	}
	if l.pos < len(l.text) && (l.text[l.pos] == 'u' || l.text[l.pos] == 'U') {
		return t, syntax(l.pos, "expected a number without u: unsigned numbers are not part of the language")
	}
	t.text = l.text[t.at:l.pos]
	return t, nil
}

func (l *lexer) digits(is func(byte) bool) (n int) {
	for l.pos < len(l.text) && is(l.text[l.pos]) {
		l.pos++
		n++
	}
	return n
}

// quoted reads a string that begins at the lexer's position, after a prefix of that many letters.
func (l *lexer) quoted(at, prefix int) (token, error) {
	raw := false
	for _, c := range strings.ToLower(l.text[at : at+prefix]) {
		if c != 'r' || raw {
			return token{}, syntax(at, "expected a string without prefix, or with r: bytes are not part of the language")
		}
		raw = true
	}
	l.pos += prefix
	quote := l.text[l.pos : l.pos+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(l.text[l.pos:], triple) {
		quote = triple
	}
	l.pos += len(quote)
	var content strings.Builder
	for {
		rest := l.text[l.pos:]
		switch {
		case strings.HasPrefix(rest, quote):
			l.pos += len(quote)
			return token{kind: kindString, at: at, text: content.String()}, nil
		case rest == "", len(quote) == 1 && (rest[0] == '\n' || rest[0] == '\r'):
			return token{}, syntax(l.pos, "expected %s at the end of the string that begins at offset %d", quote, at)
		case rest[0] == '\\' && !raw:
			r, n, err := escape(rest, l.pos)
			if err != nil {
				return token{}, err
			}
			content.WriteRune(r)
			l.pos += n
		default:
			content.WriteByte(rest[0])
			l.pos++
		}
	}
}

const (
	escapes = `abfnrtv\?"'` + "`"
	escaped = "\a\b\f\n\r\t\v\\?\"'`"
)

// escape reads the escape sequence with which a text begins, and returns its character and its length.
func escape(text string, at int) (rune, int, error) {
	if len(text) < 2 {
		return 0, 0, syntax(at, `expected a character after \`)
	}
	c := text[1]
	if i := strings.IndexByte(escapes, c); i >= 0 {
		return rune(escaped[i]), 2, nil
	}
	begin, digits, base := 2, 0, rune(16)
	switch {
	case c == 'x' || c == 'X':
		digits = 2
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case '0' <= c && c <= '3':
		begin, digits, base = 1, 3, 8
	default:
		return 0, 0, syntax(at, `expected an escape sequence such as \n, \" or \u00e9`)
	}
	if len(text) < begin+digits {
		return 0, 0, syntax(at, "expected %d digits in the escape sequence", digits)
	}
	var r rune
	for _, d := range []byte(text[begin : begin+digits]) {
		v := hexValue(d)
		if v < 0 || v >= base {
			return 0, 0, syntax(at, "expected %d digits in the escape sequence", digits)
		}
		if r = r*base + v; r > utf8.MaxRune {
			return 0, 0, syntax(at, "expected a Unicode character, found a larger number")
		}
	}
	if !utf8.ValidRune(r) {
		return 0, 0, syntax(at, "expected a Unicode character, found half of a surrogate pair")
	}
	return r, begin + digits, nil
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isHex(c byte) bool    { return hexValue(c) >= 0 }

func hexValue(c byte) rune {
	switch {
	case isDigit(c):
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
