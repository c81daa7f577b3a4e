package reason

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Reason says why: plain text, or a code with parameters. The empty one says nothing.
type Reason string

// Code names a sentence. 0 is that of plain text.
type Code uint16

// mark is the first byte of a coded reason.
const mark = "\x01"

// Text is a reason in somebody's own words. It can never be taken for a coded one.
func Text(s string) Reason { return Reason(strings.TrimLeft(s, mark)) }

// New makes a coded reason. The arguments are the code's parameters: texts and ids, numbers, states, reasons.
// One that does not fit the code is kept as it is: Valid finds it.
func New(c Code, args ...any) Reason {
	if len(args) == 0 && int(c) < len(plain) {
		return plain[c]
	}
	b := strconv.AppendUint([]byte(mark), uint64(c), 10)
	for _, arg := range args {
		switch v := arg.(type) {
		case Reason:
			b = appendText(b, 'r', string(v))
		case string:
			b = appendText(b, 's', v)
		case int:
			b = appendNumber(b, int64(v))
		case int32:
			b = appendNumber(b, int64(v))
		case int64:
			b = appendNumber(b, v)
		case uint8:
			b = appendNumber(b, int64(v))
		case uint16:
			b = appendNumber(b, int64(v))
		case uint32:
			b = appendNumber(b, int64(v))
		case uint64:
			b = appendNumber(b, int64(v))
		case v1.JobState_Value:
			b = appendNumber(b, int64(v))
		case v1.NodeState_Value:
			b = appendNumber(b, int64(v))
		case v1.ErrorType_Value:
			b = appendNumber(b, int64(v))
		default:
			b = appendText(b, 's', fmt.Sprint(v)) // ids
		}
	}
	return Reason(b)
}

func appendNumber(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, 'i'), n, 10), ';')
}

func appendText(b []byte, kind byte, s string) []byte {
	b = strconv.AppendInt(append(b, kind), int64(len(s)), 10)
	return append(append(b, ':'), s...)
}

// plain shares the reasons that have no parameters.
var plain = func() (all [len(table)]Reason) {
	for c := range all {
		all[c] = Reason(strconv.AppendUint([]byte(mark), uint64(c), 10))
	}
	return all
}()

// Param is one parameter of a coded reason.
type Param struct {
	// wire is i, s or r.
	wire byte
	// Number is set for a number, a state or an error; Text for a text, an id or a reason.
	Number int64
	Text   string
}

// Reason is a parameter that is itself a reason.
func (p Param) Reason() Reason { return Reason(p.Text) }

// Code is that of a coded reason; 0: it is plain text, or no reason that New makes.
func (r Reason) Code() Code {
	c, _, _ := r.parse()
	return c
}

// Params are those of a coded reason.
func (r Reason) Params() []Param {
	_, params, _ := r.parse()
	return params
}

// parse reads a coded reason; false: New makes no such one.
func (r Reason) parse() (Code, []Param, bool) {
	rest, coded := strings.CutPrefix(string(r), mark)
	if !coded {
		return 0, nil, false
	}
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(rest[:end], 10, 16)
	if err != nil || n == 0 || rest[0] == '0' {
		return 0, nil, false
	}
	rest = rest[end:]
	var params []Param
	for rest != "" {
		p := Param{wire: rest[0]}
		stop := byte(':')
		if p.wire == 'i' {
			stop = ';'
		}
		at := strings.IndexByte(rest, stop)
		if at < 0 {
			return 0, nil, false
		}
		number, err := strconv.ParseInt(rest[1:at], 10, 64)
		if err != nil || strconv.FormatInt(number, 10) != rest[1:at] {
			return 0, nil, false
		}
		rest = rest[at+1:]
		switch p.wire {
		case 'i':
			p.Number = number
		case 's', 'r':
			if number < 0 || number > int64(len(rest)) {
				return 0, nil, false
			}
			p.Text, rest = rest[:number], rest[number:]
		default:
			return 0, nil, false
		}
		params = append(params, p)
	}
	return Code(n), params, true
}

// Plain is the text of a reason without a code. For a reason that New would not make, it returns the part that can be shown.
func (r Reason) Plain() string { return strings.TrimLeft(string(r), mark) }

// Valid says what is wrong with a reason; nil: it is empty, text, or a code that is known with parameters of its kinds,
// and so are the reasons in it.
func (r Reason) Valid() error {
	if !strings.HasPrefix(string(r), mark) {
		return nil
	}
	c, params, ok := r.parse()
	def, known := c.def()
	switch {
	case !ok:
		return fmt.Errorf("%q is no coded reason", string(r))
	case !known:
		return fmt.Errorf("code %d is unknown", c)
	case len(params) != len(def.kinds):
		return fmt.Errorf("%s has %d parameters, not %d", def.name, len(def.kinds), len(params))
	}
	for i, p := range params {
		if wire := Kind(def.kinds[i]).wire(); p.wire != wire {
			return fmt.Errorf("parameter %d of %s is of kind %c, not %c", i, def.name, p.wire, wire)
		}
		if p.wire == 'r' {
			if err := p.Reason().Valid(); err != nil {
				return fmt.Errorf("in %s: %w", def.name, err)
			}
		}
	}
	return nil
}

// Clip cuts the texts in a reason, between two letters, until it has at most so many bytes.
func (r Reason) Clip(most int) Reason {
	if len(r) <= most {
		return r
	}
	c, params, ok := r.parse()
	if !ok {
		return Reason(Cut(string(r), most))
	}
	for each := most; ; each /= 2 {
		args := make([]any, len(params))
		for i, p := range params {
			switch p.wire {
			case 'i':
				args[i] = p.Number
			case 's':
				args[i] = Cut(p.Text, each)
			case 'r':
				args[i] = p.Reason().Clip(each)
			}
		}
		if cut := New(c, args...); len(cut) <= most || each == 0 {
			return cut
		}
	}
}

// Cut cuts a text to at most so many bytes, between two letters.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// String is for those who debug: the name of the code with its parameters. People are shown words.Of.
func (r Reason) String() string {
	c, params, ok := r.parse()
	if !ok {
		return r.Plain()
	}
	var b strings.Builder
	b.WriteString(c.String())
	for i, p := range params {
		b.WriteString([]string{"(", ", "}[min(i, 1)])
		if p.wire == 'i' {
			fmt.Fprint(&b, p.Number)
		} else {
			b.WriteString(p.Reason().String())
		}
	}
	if len(params) > 0 {
		b.WriteString(")")
	}
	return b.String()
}
