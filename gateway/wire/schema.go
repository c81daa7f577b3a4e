package wire

import (
	"slices"
	"strings"
	"sync"

	"github.com/agnivade/levenshtein"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema describes the JSON object of one type of message. It is built once from the descriptor.
type schema struct {
	desc   protoreflect.MessageDescriptor
	fields map[string]*schemaField
	names  []string
	// lenient: the field names were not published completely, so unknown ones are ignored, and listed in the answer.
	lenient bool
	// Well-known types are not objects with fields.
	wellKnown protoreflect.FullName
	// emptied are the fields that list, of the fields of a message with this name, those that are given as 0 or empty.
	emptied map[string]protoreflect.FieldDescriptor
}

type schemaField struct {
	name    string
	number  int
	fd      protoreflect.FieldDescriptor
	kind    protoreflect.Kind // of a value, an element or a map value
	isList  bool
	isMap   bool
	message *schema
	// object: the field has the text of a JSON object.
	object   bool
	enum     map[string]protoreflect.EnumNumber
	allowed  string // of an enum, for messages
	describe string // what a value must be, for messages
}

// lenientMessages are the messages that ScaiMind published only in part.
var lenientMessages = []protoreflect.FullName{
	"scaimind.v1.TrainingConfig", "scaimind.v1.BaseModel", "scaimind.v1.Framework", "scaimind.v1.Distributed",
	"scaimind.v1.DataConfig", "scaimind.v1.DataSource", "scaimind.v1.OutputConfig",
}

// Lenient reports whether unknown fields are ignored.
func Lenient(d protoreflect.MessageDescriptor) bool {
	return slices.Contains(lenientMessages, d.FullName())
}

const (
	timestampName protoreflect.FullName = "google.protobuf.Timestamp"
	structName    protoreflect.FullName = "google.protobuf.Struct"
	valueName     protoreflect.FullName = "google.protobuf.Value"
)

var (
	schemasMu sync.Mutex
	schemas   = map[protoreflect.FullName]*schema{}
)

func schemaOf(d protoreflect.MessageDescriptor) *schema {
	schemasMu.Lock()
	defer schemasMu.Unlock()
	return buildSchema(d)
}

func buildSchema(d protoreflect.MessageDescriptor) *schema {
	if s, ok := schemas[d.FullName()]; ok {
		return s
	}
	s := &schema{desc: d, fields: map[string]*schemaField{}, lenient: Lenient(d)}
	schemas[d.FullName()] = s
	if slices.Contains([]protoreflect.FullName{timestampName, structName, valueName}, d.FullName()) {
		s.wellKnown = d.FullName()
		return s
	}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if of := EmptiedOf(fd); of != "" {
			if s.emptied == nil {
				s.emptied = map[string]protoreflect.FieldDescriptor{}
			}
			for name := range strings.SplitSeq(of, ",") {
				s.emptied[name] = fd
			}
			continue
		}
		f := newSchemaField(fd)
		s.fields[f.name] = f
		s.names = append(s.names, f.name)
	}
	return s
}

func newSchemaField(fd protoreflect.FieldDescriptor) *schemaField {
	value := fd
	if fd.IsMap() {
		value = fd.MapValue()
	}
	f := &schemaField{
		name: string(fd.Name()), number: int(fd.Number()), fd: fd,
		kind: value.Kind(), isList: fd.IsList(), isMap: fd.IsMap(), object: JSONField(fd),
	}
	switch f.kind {
	case protoreflect.MessageKind:
		f.message = buildSchema(value.Message())
	case protoreflect.EnumKind:
		f.enum = map[string]protoreflect.EnumNumber{}
		var names []string
		values := value.Enum().Values()
		for i := range values.Len() {
			if v := values.Get(i); v.Number() != 0 {
				f.enum[string(v.Name())] = v.Number()
				names = append(names, string(v.Name()))
			}
		}
		f.allowed = strings.Join(names, ", ")
	}
	f.describe = f.description()
	return f
}

func (f *schemaField) description() string {
	switch f.kind {
	case protoreflect.StringKind:
		if f.object {
			return "an object"
		}
		return "a string"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		return "one of " + f.allowed
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "a number"
	case protoreflect.MessageKind:
		if f.message.wellKnown == timestampName {
			return "a time in RFC 3339, such as 2026-01-31T08:00:00Z"
		}
		if f.message.wellKnown == valueName {
			return "JSON"
		}
		return "an object"
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return "a whole number, 0 or more"
	}
	return "a whole number"
}

// maxSuggested is the length up to which the closest known name is searched: callers can send names of any length.
const maxSuggested = 64

// suggest returns the known name that is closest to an unknown one, or "".
func (s *schema) suggest(unknown string) string {
	best, fewest := "", 3
	for _, name := range s.names {
		if len(unknown) > maxSuggested {
			break
		}
		if d := levenshtein.ComputeDistance(strings.ToLower(unknown), name); d < fewest {
			best, fewest = name, d
		}
	}
	if best != "" {
		return best
	}
	// One contains the other: gpus -> gpu_count has no short edit.
	plain := strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(unknown), "-", "_"), "s")
	if len(plain) < 3 {
		return ""
	}
	for _, name := range s.names {
		if strings.HasPrefix(name, plain) || strings.HasSuffix(name, plain) || strings.HasPrefix(plain, name) {
			return name
		}
	}
	return ""
}
