// Package numbers keeps the kind of a number in a google.protobuf.Value, which has doubles alone: 1 and 1.0 differ in a
// program, and an integer of 64 bits has more digits than a double.
//
// A number that a double would change carries its kind in a field of the Value that its type does not define. Programs
// that do not know the field see the nearest double, as before.
package numbers

import (
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
)

// The fields of a Value that carry the kind: an integer that a double does not hold, and a double that looks like an
// integer.
const (
	fieldInt    = 1001
	fieldDouble = 1002
)

// exact bounds the integers that a double holds without gaps.
const exact = 1 << 53

// Int returns an integer as a Value.
func Int(n int64) *structpb.Value {
	v := structpb.NewNumberValue(float64(n))
	if n <= -exact || n >= exact {
		v.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, fieldInt, protowire.VarintType), protowire.EncodeZigZag(n)))
	}
	return v
}

// Double returns a double as a Value.
func Double(f float64) *structpb.Value {
	v := structpb.NewNumberValue(f)
	if whole(f) {
		v.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, fieldDouble, protowire.VarintType), 1))
	}
	return v
}

// Of returns the number of a Value, an int64 or a float64. Without a kind, it is an integer if it looks like one.
func Of(v *structpb.Value) any {
	f := v.GetNumberValue()
	for rest := []byte(v.ProtoReflect().GetUnknown()); len(rest) > 0; {
		field, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			break
		}
		rest = rest[n:]
		switch {
		case field == fieldDouble:
			return f
		case field == fieldInt && kind == protowire.VarintType:
			if u, n := protowire.ConsumeVarint(rest); n > 0 {
				return protowire.DecodeZigZag(u)
			}
		}
		if n = protowire.ConsumeFieldValue(field, kind, rest); n < 0 {
			break
		}
		rest = rest[n:]
	}
	if whole(f) {
		return int64(f)
	}
	return f
}

// Read returns a number as JSON has it, as a Value: an integer if it is written as one and fits into 64 bits, and a double
// otherwise; false: it is out of range.
func Read(literal json.Number) (*structpb.Value, bool) {
	if !strings.ContainsAny(literal.String(), ".eE") {
		if n, err := literal.Int64(); err == nil {
			return Int(n), true
		}
	}
	f, err := literal.Float64()
	if err != nil {
		return nil, false
	}
	return Double(f), true
}

func whole(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < exact }
