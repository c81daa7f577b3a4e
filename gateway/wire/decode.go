package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Fault is one error in a body.
type Fault struct {
	Field   string
	Message string
}

// Limits for the reported faults of one body, and for the depth of an object in a field without a schema.
const (
	MaxFaults  = 50
	maxNesting = 64
	// Limits for entries of one list or map, messages of one list, and values of a field without a schema: a message takes
	// far more memory than the two or three bytes in which an entry can be written.
	maxEntries  = 10_000
	maxMessages = 2_000
)

// Decode turns a JSON object into a message. All faults are collected; the message is valid only if there are none. It also
// returns the names of ignored fields. Fields in without count as unknown.
func Decode(body []byte, m proto.Message, without ...string) (faults []Fault, ignored []string) {
	text, fault := validJSON(body)
	if fault != nil {
		return []Fault{*fault}, nil
	}
	d := decoder{text: text, without: without}
	d.space()
	d.value(func() {
		r := m.ProtoReflect()
		d.object(r, schemaOf(r.Descriptor()))
	}, '{', "an object")
	return d.faults, d.ignored
}

// validJSON returns the body as a string, or why it is not JSON.
func validJSON(body []byte) (string, *Fault) {
	if !utf8.Valid(body) {
		return "", &Fault{Message: "the body is not UTF-8"}
	}
	if json.Valid(body) {
		if halfPair(body) {
			return "", &Fault{Message: `a string has half of a surrogate pair, such as \ud800 alone, which is no character`}
		}
		return string(body), nil
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return "", &Fault{Message: "the body is empty; it must be a JSON object"}
	}
	var anything any
	err := json.Unmarshal(body, &anything)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := body[:min(int(syntax.Offset), len(body))]
		line := 1 + strings.Count(string(before), "\n")
		column := len(before) - (strings.LastIndexByte(string(before), '\n') + 1)
		return "", &Fault{Message: fmt.Sprintf("malformed JSON at line %d, column %d: %s", line, column, syntax.Error())}
	}
	return "", &Fault{Message: "malformed JSON"}
}

// decoder walks a text that is known to be valid JSON.
type decoder struct {
	text    string
	at      int
	path    []step
	without []string
	faults  []Fault
	ignored []string
	// seen are the fields of the object that was read last, the first 63 by number as bits.
	seen uint64
}

// step is a part of a path: a name, or an index in a list.
type step struct {
	name  string
	index int
}

func (d *decoder) where(last string) string {
	var b strings.Builder
	for _, s := range d.path {
		if s.name == "" {
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
	}
	if last != "" {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(last)
	}
	return b.String()
}

func (d *decoder) fault(format string, args ...any) {
	if len(d.faults) < MaxFaults {
		d.faults = append(d.faults, Fault{Field: d.where(""), Message: fmt.Sprintf(format, args...)})
	}
}

func (d *decoder) push(s step) { d.path = append(d.path, s) }
func (d *decoder) pop()        { d.path = d.path[:len(d.path)-1] }

// value calls read if the next value has the expected kind; otherwise it records a fault and skips the value.
func (d *decoder) value(read func(), begins byte, want string) {
	if d.text[d.at] == begins {
		read()
		return
	}
	d.fault("must be %s, not %s", want, d.skip())
}

// object reads {...} into a message and returns which fields were present, the first 63 by number as bits.
func (d *decoder) object(m protoreflect.Message, s *schema) uint64 {
	var seen [2]uint64
	d.members(func(name string) {
		f := s.fields[name]
		if f != nil && len(d.path) == 0 && d.left(name) {
			f = nil
		}
		if f == nil {
			d.unknown(s, name)
			return
		}
		d.push(step{name: f.name})
		defer d.pop()
		word, bit := &seen[f.number>>6&1], uint64(1)<<(f.number&63)
		if *word&bit != 0 {
			d.fault("is given twice")
			d.skip()
			return
		}
		if d.text[d.at] != 'n' {
			*word |= bit
		}
		d.field(m, f)
		if s.emptied != nil {
			d.noteEmptied(m, s, f)
		}
	})
	d.seen = seen[0]
	return seen[0]
}

func (d *decoder) left(name string) bool {
	for _, w := range d.without {
		if w == name {
			return true
		}
	}
	return false
}

func (d *decoder) unknown(s *schema, name string) {
	d.skip()
	if s.lenient {
		if len(d.ignored) < MaxFaults {
			d.ignored = append(d.ignored, d.where(Printable(name)))
		}
		return
	}
	message := "unknown field"
	if near := s.suggest(name); near != "" && !(len(d.path) == 0 && d.left(near)) {
		message += "; did you mean " + near + "?"
	}
	if len(d.faults) < MaxFaults {
		d.faults = append(d.faults, Fault{Field: d.where(Printable(name)), Message: message})
	}
}

// Printable shortens a name from a body for use in an answer.
func Printable(name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "..."
	}
	return name
}

// field reads the value of a field. null means that it is not set.
func (d *decoder) field(m protoreflect.Message, f *schemaField) {
	switch {
	case d.text[d.at] == 'n':
		d.skip()
	case f.isList && f.kind == protoreflect.StringKind && d.text[d.at] == '"':
		start := d.at
		kind := d.skip()
		d.fault("must be a list, not %s; write [%s]", kind, Printable(d.text[start:d.at]))
	case f.isList:
		d.value(func() {
			list, most := m.Mutable(f.fd).List(), maxEntries
			if f.kind == protoreflect.MessageKind {
				most = maxMessages
			}
			d.elements(func(i int) {
				if d.tooMany(i, most) {
					return
				}
				d.push(step{index: i})
				if v, ok := d.one(f, list.NewElement); ok {
					list.Append(v)
				}
				d.pop()
			})
		}, '[', "a list")
	case f.isMap:
		d.value(func() {
			entries, i := m.Mutable(f.fd).Map(), -1
			d.members(func(key string) {
				if i++; d.tooMany(i, maxEntries) {
					return
				}
				d.push(step{name: Printable(key)})
				defer d.pop()
				at := protoreflect.ValueOfString(key).MapKey()
				if entries.Has(at) {
					d.fault("is given twice")
					d.skip()
					return
				}
				if v, ok := d.one(f, entries.NewValue); ok {
					entries.Set(at, v)
				}
			})
		}, '{', "an object")
	default:
		if v, ok := d.one(f, func() protoreflect.Value { return m.NewField(f.fd) }); ok {
			m.Set(f.fd, v)
		}
	}
}

// tooMany skips the entry that starts here if there are too many before it.
func (d *decoder) tooMany(before, most int) bool {
	if before < most {
		return false
	}
	if before == most {
		d.fault("has more than %d entries", most)
	}
	d.skip()
	return true
}

// one reads a single value of a field.
func (d *decoder) one(f *schemaField, fresh func() protoreflect.Value) (protoreflect.Value, bool) {
	none := protoreflect.Value{}
	c := d.text[d.at]
	switch f.kind {
	case protoreflect.StringKind:
		if f.object {
			return d.plain(f)
		}
		if c == '"' {
			return protoreflect.ValueOfString(d.string()), true
		}
		start := d.at
		kind := d.skip()
		if c == '-' || (c >= '0' && c <= '9') {
			d.fault("must be a string, not a number; write \"%s\"", Printable(d.text[start:d.at]))
		} else {
			d.fault("must be a string, not %s", kind)
		}
		return none, false
	case protoreflect.BoolKind:
		if c == 't' || c == 'f' {
			d.skip()
			return protoreflect.ValueOfBool(c == 't'), true
		}
	case protoreflect.EnumKind:
		if c == '"' {
			name := d.string()
			if n, ok := f.enum[name]; ok {
				return protoreflect.ValueOfEnum(n), true
			}
			d.fault("must be one of %s, not %q", f.allowed, Printable(name))
			return none, false
		}
	case protoreflect.MessageKind:
		return d.message(f, fresh)
	default:
		if c == '-' || (c >= '0' && c <= '9') {
			return d.number(f)
		}
	}
	d.fault("must be %s, not %s", f.describe, d.skip())
	return none, false
}

func (d *decoder) message(f *schemaField, fresh func() protoreflect.Value) (protoreflect.Value, bool) {
	none := protoreflect.Value{}
	c := d.text[d.at]
	switch {
	case f.message.wellKnown == timestampName && c == '"':
		raw := d.string()
		t, err := time.Parse(time.RFC3339Nano, raw)
		ts := timestamppb.New(t)
		if err != nil || !ts.IsValid() {
			d.fault("must be %s, not %q", f.describe, Printable(raw))
			return none, false
		}
		return protoreflect.ValueOfMessage(ts.ProtoReflect()), true
	case f.message.wellKnown == structName && c == '{', f.message.wellKnown == valueName:
		return d.free(f.message.wellKnown)
	case f.message.wellKnown == "" && c == '{':
		v := fresh()
		d.object(v.Message(), f.message)
		return v, true
	}
	d.fault("must be %s, not %s", f.describe, d.skip())
	return none, false
}
