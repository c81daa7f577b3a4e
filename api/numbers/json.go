package numbers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// Parse reads a JSON text as a Value, in which numbers keep their kind.
func Parse(text []byte) (*structpb.Value, error) {
	plain, err := parse(text)
	if err != nil {
		return nil, err
	}
	return Value(plain)
}

// ParseObject reads the text of a JSON object.
func ParseObject(text []byte) (*structpb.Struct, error) {
	v, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if v.GetStructValue() == nil {
		return nil, errors.New("it is no JSON object")
	}
	return v.GetStructValue(), nil
}

func parse(text []byte) (plain any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON: something follows the value")
	}
	return plain, nil
}

// Value makes a Value of parsed JSON whose numbers are of type json.Number.
func Value(plain any) (*structpb.Value, error) {
	switch plain := plain.(type) {
	case json.Number:
		v, ok := Read(plain)
		if !ok {
			return nil, fmt.Errorf("the number %.64s is out of range", plain)
		}
		return v, nil
	case []any:
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(plain))}
		for i := range plain {
			var err error
			if list.Values[i], err = Value(plain[i]); err != nil {
				return nil, err
			}
		}
		return structpb.NewListValue(list), nil
	case map[string]any:
		object := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(plain))}
		for key, value := range plain {
			v, err := Value(value)
			if err != nil {
				return nil, err
			}
			if !utf8.ValidString(key) {
				return nil, errors.New("a name is not UTF-8")
			}
			object.Fields[key] = v
		}
		return structpb.NewStructValue(object), nil
	}
	v, err := structpb.NewValue(plain)
	if err != nil {
		return nil, fmt.Errorf("read a value: %w", err)
	}
	return v, nil
}

// Append writes a number as JSON. A double that looks like an integer has a fraction; NaN and infinite ones are null.
func Append(b []byte, v *structpb.Value) []byte {
	if len(v.ProtoReflect().GetUnknown()) == 0 {
		return AppendDouble(b, v.GetNumberValue())
	}
	switch n := Of(v).(type) {
	case int64:
		return strconv.AppendInt(b, n, 10)
	case float64:
		start := len(b)
		if b = AppendDouble(b, n); !bytes.ContainsAny(b[start:], ".eEn") {
			b = append(b, ".0"...)
		}
	}
	return b
}

// AppendDouble writes a double as JSON. NaN and infinite ones are null.
func AppendDouble(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

// Marshal writes a message as protojson does, with the names of the protos, but numbers without a schema keep their kind.
// Equal messages have equal texts.
func Marshal(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	plain, err := parse(text)
	if err != nil {
		return nil, err
	}
	_, plain = freeOne(m.ProtoReflect(), plain, func(v *structpb.Value, _ any) (*structpb.Value, any) { return v, ofValue(v) })
	return json.Marshal(plain)
}

// Unmarshal reads a message with a schema as protojson does, but numbers without a schema keep their kind.
func Unmarshal(text []byte, m proto.Message) error {
	if err := protojson.Unmarshal(text, m); err != nil {
		return err
	}
	plain, err := parse(text)
	if err != nil {
		return err
	}
	free(m.ProtoReflect(), plain, func(v *structpb.Value, text any) (*structpb.Value, any) {
		if kept, err := Value(text); err == nil { // Otherwise protojson has refused it.
			v = kept
		}
		return v, text
	})
	return nil
}

// free walks a message beside its parsed JSON, and replaces what has no schema in both.
func free(m protoreflect.Message, plain any, swap func(*structpb.Value, any) (*structpb.Value, any)) {
	object, ok := plain.(map[string]any)
	if !ok {
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() != protoreflect.MessageKind || fd.IsMap() {
			return true
		}
		name := string(fd.Name())
		if _, there := object[name]; !there {
			name = fd.JSONName()
		}
		if !fd.IsList() {
			var now protoreflect.Message
			if now, object[name] = freeOne(v.Message(), object[name], swap); now != v.Message() {
				m.Set(fd, protoreflect.ValueOfMessage(now))
			}
			return true
		}
		texts, _ := object[name].([]any)
		for i := range min(v.List().Len(), len(texts)) {
			var now protoreflect.Message
			now, texts[i] = freeOne(v.List().Get(i).Message(), texts[i], swap)
			v.List().Set(i, protoreflect.ValueOfMessage(now))
		}
		return true
	})
}

func freeOne(m protoreflect.Message, plain any, swap func(*structpb.Value, any) (*structpb.Value, any)) (protoreflect.Message, any) {
	switch one := m.Interface().(type) {
	case *structpb.Value:
		v, plain := swap(one, plain)
		return v.ProtoReflect(), plain
	case *structpb.Struct:
		v, plain := swap(structpb.NewStructValue(one), plain)
		return v.GetStructValue().ProtoReflect(), plain
	}
	free(m, plain, swap)
	return m, plain
}

// ofValue makes a Value plain, for encoding/json. Numbers are json.Number.
func ofValue(v *structpb.Value) any {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		text := Append(nil, v)
		if text[0] == 'n' {
			return nil
		}
		return json.Number(text)
	case *structpb.Value_ListValue:
		list := make([]any, len(k.ListValue.GetValues()))
		for i, e := range k.ListValue.GetValues() {
			list[i] = ofValue(e)
		}
		return list
	case *structpb.Value_StructValue:
		object := make(map[string]any, len(k.StructValue.GetFields()))
		for name, e := range k.StructValue.GetFields() {
			object[name] = ofValue(e)
		}
		return object
	}
	return v.AsInterface()
}

// JSON writes a Value as JSON, in which numbers keep their kind.
func JSON(v *structpb.Value) ([]byte, error) { return json.Marshal(ofValue(v)) }

// Whole returns the integer part of a number that counts something, such as the step of a training; false: it is no number
// from 0 to 2^53.
func Whole(f float64) (int64, bool) {
	if !(f >= 0 && f <= exact) {
		return 0, false
	}
	return int64(f), true
}
