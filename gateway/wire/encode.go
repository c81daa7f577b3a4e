package wire

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
)

// Append appends a message as the REST interface shows it: names as in the protos, enums by name, 64-bit integers as
// numbers, times in RFC 3339. Every field is always present, so callers need not check; unset messages, optional fields and
// enums are null. hide omits secrets (secrets.go).
func Append(b []byte, m proto.Message, hide bool) []byte {
	r := m.ProtoReflect()
	return encoderOf(r.Descriptor()).append(b, r, hide)
}

// AppendRows is like Append. Of the messages in one list field of m it writes the named fields only; none: all of them.
func AppendRows(b []byte, m proto.Message, list string, only []string, hide bool) []byte {
	if len(only) == 0 {
		return Append(b, m, hide)
	}
	r := m.ProtoReflect()
	e := *encoderOf(r.Descriptor())
	e.fields = slices.Clone(e.fields)
	for i := range e.fields {
		if f := &e.fields[i]; string(f.fd.Name()) == list {
			rows := encoder{fields: slices.DeleteFunc(slices.Clone(encoderOf(f.fd.Message()).fields), func(row encodedField) bool {
				return !slices.Contains(only, string(row.fd.Name()))
			})}
			f.value = func(b []byte, v protoreflect.Value, hide bool) []byte {
				return appendList(b, v.List(), func(b []byte, v protoreflect.Value, hide bool) []byte { return rows.append(b, v.Message(), hide) }, hide)
			}
		}
	}
	return e.append(b, r, hide)
}

// AppendPublic is like Append, for callers whose permissions are unknown.
func AppendPublic(b []byte, m proto.Message) []byte { return Append(b, m, true) }

// encoder writes one type of message. It is built once from the descriptor.
type encoder struct {
	special func(b []byte, m protoreflect.Message, hide bool) []byte // well-known types
	fields  []encodedField
}

type encodedField struct {
	key      string // `"name":`
	fd       protoreflect.FieldDescriptor
	presence bool // null when unset
	value    appender
}

// appender writes a value.
type appender func(b []byte, v protoreflect.Value, hide bool) []byte

var encoders sync.Map // protoreflect.FullName -> *encoder

func encoderOf(d protoreflect.MessageDescriptor) *encoder {
	if e, ok := encoders.Load(d.FullName()); ok {
		return e.(*encoder)
	}
	e := &encoder{}
	switch d.FullName() {
	case "google.protobuf.Timestamp":
		e.special = func(b []byte, m protoreflect.Message, _ bool) []byte { return AppendTimestamp(b, m) }
	case structName:
		e.special = appendStruct
	case valueName:
		e.special = func(b []byte, m protoreflect.Message, hide bool) []byte {
			v, _ := m.Interface().(*structpb.Value)
			return appendFree(b, v, hide)
		}
	default:
		for i := range d.Fields().Len() {
			e.fields = append(e.fields, newEncodedField(d.Fields().Get(i)))
		}
	}
	got, _ := encoders.LoadOrStore(d.FullName(), e)
	return got.(*encoder)
}

func newEncodedField(fd protoreflect.FieldDescriptor) encodedField {
	f := encodedField{key: string(AppendString(nil, string(fd.Name()))) + ":", fd: fd}
	switch {
	case fd.IsMap():
		value := valueAppender(fd.MapValue())
		if secretField(fd) {
			value = unlessHidden(value)
		}
		f.value = func(b []byte, v protoreflect.Value, hide bool) []byte { return appendMap(b, v.Map(), value, hide) }
	case fd.IsList():
		value := valueAppender(fd)
		f.value = func(b []byte, v protoreflect.Value, hide bool) []byte { return appendList(b, v.List(), value, hide) }
	default:
		f.presence = fd.HasPresence() || fd.Kind() == protoreflect.EnumKind
		f.value = valueAppender(fd)
	}
	return f
}

func (e *encoder) append(b []byte, m protoreflect.Message, hide bool) []byte {
	if e.special != nil {
		return e.special(b, m, hide)
	}
	b = append(b, '{')
	start := len(b)
	for i := range e.fields {
		f := &e.fields[i]
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, f.key...)
		if f.presence && !m.Has(f.fd) {
			b = append(b, "null"...)
			continue
		}
		b = f.value(b, m.Get(f.fd), hide)
	}
	return append(b, '}')
}

func appendList(b []byte, list protoreflect.List, value appender, hide bool) []byte {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, list.Get(i), hide)
	}
	return append(b, ']')
}

// appendMap writes the entries in the order of their keys: equal messages have equal bytes, and so one entity tag.
func appendMap(b []byte, entries protoreflect.Map, value appender, hide bool) []byte {
	type entry struct {
		key   string
		value protoreflect.Value
	}
	all := make([]entry, 0, 8)
	if entries.Len() > 0 {
		entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			all = append(all, entry{k.String(), v})
			return true
		})
	}
	if len(all) > 1 {
		slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	}
	b = append(b, '{')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, all[i].key)
		b = append(b, ':')
		b = value(b, all[i].value, hide)
	}
	return append(b, '}')
}

// valueAppender returns the function that writes one value of a field, an element or a map value.
func valueAppender(fd protoreflect.FieldDescriptor) appender {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return func(b []byte, v protoreflect.Value, _ bool) []byte { return strconv.AppendBool(b, v.Bool()) }
	case protoreflect.StringKind:
		if JSONField(fd) {
			return appendPlain
		}
		return func(b []byte, v protoreflect.Value, hide bool) []byte {
			if hide {
				return AppendString(b, hideCredentials(v.String()))
			}
			return AppendString(b, v.String())
		}
	case protoreflect.BytesKind:
		return func(b []byte, v protoreflect.Value, _ bool) []byte { return AppendString(b, string(v.Bytes())) }
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return func(b []byte, v protoreflect.Value, _ bool) []byte { return numbers.AppendDouble(b, v.Float()) }
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return func(b []byte, v protoreflect.Value, _ bool) []byte {
			if ev := values.ByNumber(v.Enum()); ev != nil {
				return AppendString(b, string(ev.Name()))
			}
			// A newer coordinator sent the value, and its name is unknown here.
			return AppendString(b, strconv.Itoa(int(v.Enum())))
		}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		d := fd.Message()
		var once sync.Once
		var e *encoder // looked up late: types may contain themselves
		return func(b []byte, v protoreflect.Value, hide bool) []byte {
			once.Do(func() { e = encoderOf(d) })
			return e.append(b, v.Message(), hide)
		}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return func(b []byte, v protoreflect.Value, _ bool) []byte { return strconv.AppendUint(b, v.Uint(), 10) }
	default:
		return func(b []byte, v protoreflect.Value, _ bool) []byte { return strconv.AppendInt(b, v.Int(), 10) }
	}
}

func AppendTimestamp(b []byte, m protoreflect.Message) []byte {
	fields := m.Descriptor().Fields()
	seconds, nanos := m.Get(fields.ByNumber(1)).Int(), m.Get(fields.ByNumber(2)).Int()
	b = append(b, '"')
	b = time.Unix(seconds, nanos).UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func appendStruct(b []byte, m protoreflect.Message, hide bool) []byte {
	s, ok := m.Interface().(*structpb.Struct)
	if !ok {
		return append(b, "{}"...)
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, name)
		b = append(b, ':')
		if v := s.GetFields()[name]; hide && name == environmentField && v.GetStructValue() != nil {
			b = appendMasked(b, v.GetStructValue())
		} else {
			b = appendFree(b, v, hide)
		}
	}
	return append(b, '}')
}

// appendMasked writes the names of an environment in free JSON, such as the job of a program, without its values.
func appendMasked(b []byte, environment *structpb.Struct) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(environment.GetFields())) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, name), ':')
		b = AppendString(b, hidden)
	}
	return append(b, '}')
}

// appendFree writes a value of a Struct.
func appendFree(b []byte, whole *structpb.Value, hide bool) []byte {
	switch v := whole.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, v.BoolValue)
	case *structpb.Value_NumberValue:
		return numbers.Append(b, whole)
	case *structpb.Value_StringValue:
		if hide {
			return AppendString(b, hideCredentials(v.StringValue))
		}
		return AppendString(b, v.StringValue)
	case *structpb.Value_StructValue:
		return appendStruct(b, v.StructValue.ProtoReflect(), hide)
	case *structpb.Value_ListValue:
		b = append(b, '[')
		for i, item := range v.ListValue.GetValues() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendFree(b, item, hide)
		}
		return append(b, ']')
	}
	return append(b, "null"...)
}

const hexDigits = "0123456789abcdef"

// AppendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
			b = append(b, s[start:i]...)
			b = append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
			i += size
			start = i
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
