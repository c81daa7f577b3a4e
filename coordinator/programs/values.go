package programs

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/numbers"
	"github.com/mindcoordinator/mind/flow/machine"
)

// FromAPI makes a value of one that came in a request. A number is an integer if it was written as one (package numbers).
func FromAPI(v *structpb.Value) any {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return numbers.Of(v)
	case *structpb.Value_ListValue:
		list := make([]any, len(k.ListValue.GetValues()))
		for i, e := range k.ListValue.GetValues() {
			list[i] = FromAPI(e)
		}
		return list
	case *structpb.Value_StructValue:
		return fields(k.StructValue)
	}
	return v.AsInterface()
}

// FromStruct makes a value of an object that came in a request.
func FromStruct(s *structpb.Struct) map[string]any {
	if s == nil {
		return nil
	}
	return fields(s)
}

func fields(s *structpb.Struct) map[string]any {
	object := make(map[string]any, len(s.GetFields()))
	for k, e := range s.GetFields() {
		object[k] = FromAPI(e)
	}
	return object
}

// Measured returns measured values as doubles: an accuracy of 1 is no integer, however it was written.
func Measured(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = Measured(v[i])
		}
	case map[string]any:
		for k := range v { // order-free: each by itself
			v[k] = Measured(v[k])
		}
	}
	return v
}

// ToAPI makes a value of a program one for an answer.
func ToAPI(v any) *structpb.Value {
	switch v := v.(type) {
	case nil:
		return structpb.NewNullValue()
	case int64:
		return numbers.Int(v)
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return numbers.Double(v)
		}
	case []any:
		list := &structpb.ListValue{}
		for _, e := range v {
			list.Values = append(list.Values, ToAPI(e))
		}
		return structpb.NewListValue(list)
	case map[string]any:
		return structpb.NewStructValue(ToStruct(v))
	}
	out, err := structpb.NewValue(v)
	if err != nil {
		return structpb.NewStringValue(fmt.Sprint(v))
	}
	return out
}

// ToStruct makes an object of a program one for an answer.
func ToStruct(m map[string]any) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, e := range m {
		s.Fields[k] = ToAPI(e)
	}
	return s
}

// Stored makes a value of the state one for an answer; nil: there is none.
func Stored(data []byte) *structpb.Value {
	if len(data) == 0 {
		return nil
	}
	v, err := machine.DecodeValue(data)
	if err != nil {
		return nil
	}
	return ToAPI(v)
}

// JSON makes an object that came in a request JSON, with its numbers as they were written.
func JSON(s *structpb.Struct) ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	return numbers.Marshal(s)
}

// OfMessage makes a value of a message, as REST shows it: all fields by their names, times and enums as text, and null for
// messages and optional fields that are not set.
func OfMessage(m proto.Message) map[string]any {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	out := make(map[string]any, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		if (f.HasPresence() || f.Kind() == protoreflect.EnumKind && !f.IsList()) && !r.Has(f) {
			out[string(f.Name())] = nil
			continue
		}
		out[string(f.Name())] = ofField(f, r.Get(f))
	}
	return out
}

// SetFields makes a value of the fields of a message that are set, for a message that has a part of what it describes.
func SetFields(m proto.Message) map[string]any {
	out := map[string]any{}
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out[string(f.Name())] = ofField(f, v)
		return true
	})
	return out
}

func ofField(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		entries := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
			entries[k.String()] = ofScalar(f.MapValue(), e)
			return true
		})
		return entries
	case f.IsList():
		list := make([]any, v.List().Len())
		for i := range list {
			list[i] = ofScalar(f, v.List().Get(i))
		}
		return list
	}
	return ofScalar(f, v)
}

func ofScalar(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		switch m := v.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			return m.AsTime().Format(time.RFC3339Nano)
		case *structpb.Struct:
			return FromStruct(m)
		case *structpb.Value:
			return FromAPI(m)
		default:
			return OfMessage(m)
		}
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return int64(v.Enum())
	case protoreflect.BoolKind:
		return v.Bool()
	case protoreflect.StringKind:
		return v.String()
	case protoreflect.BytesKind:
		return string(v.Bytes())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return v.Float()
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return int64(min(v.Uint(), math.MaxInt64))
	}
	return v.Int()
}
