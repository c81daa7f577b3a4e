package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mindcoordinator/mind/api/numbers"
)

// free reads JSON without a schema: an object for a Struct, anything for a Value.
func (d *decoder) free(kind protoreflect.FullName) (protoreflect.Value, bool) {
	start := d.at
	d.skip()
	raw := d.text[start:d.at]
	deepest, values := shape(raw)
	if deepest > maxNesting {
		d.fault("is nested more than %d levels deep", maxNesting)
		return protoreflect.Value{}, false
	}
	if values > maxEntries {
		d.fault("has more than %d values", maxEntries)
		return protoreflect.Value{}, false
	}
	if !d.once(start) {
		return protoreflect.Value{}, false
	}
	var plain any
	parser := json.NewDecoder(strings.NewReader(raw))
	parser.UseNumber()
	if err := parser.Decode(&plain); err != nil {
		d.fault("cannot be read: %s", err)
		return protoreflect.Value{}, false
	}
	v, err := numbers.Value(plain)
	if err != nil {
		d.fault("cannot be read: %s", err)
		return protoreflect.Value{}, false
	}
	if kind == valueName {
		return protoreflect.ValueOfMessage(v.ProtoReflect()), true
	}
	return protoreflect.ValueOfMessage(v.GetStructValue().ProtoReflect()), true
}

func (d *decoder) number(f *schemaField) (protoreflect.Value, bool) {
	none := protoreflect.Value{}
	raw := d.literal()
	if f.kind == protoreflect.DoubleKind || f.kind == protoreflect.FloatKind {
		v, err := strconv.ParseFloat(raw, 64)
		if err != nil {
			d.fault("is out of range")
			return none, false
		}
		if f.kind == protoreflect.FloatKind {
			return protoreflect.ValueOfFloat32(float32(v)), true
		}
		return protoreflect.ValueOfFloat64(v), true
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		// 1e3 and 8.0 are whole numbers too.
		v, ferr := strconv.ParseFloat(raw, 64)
		if ferr != nil || v != math.Trunc(v) {
			d.fault("must be %s, not %s", f.describe, Printable(raw))
			return none, false
		}
		if math.Abs(v) >= 1<<53 {
			d.fault("is out of range")
			return none, false
		}
		n = int64(v)
	}
	switch f.kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if n < math.MinInt32 || n > math.MaxInt32 {
			d.fault("is out of range: at most %d", math.MaxInt32)
			return none, false
		}
		return protoreflect.ValueOfInt32(int32(n)), true
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n), true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if n < 0 || n > math.MaxUint32 {
			d.fault("is out of range: 0 to %d", uint32(math.MaxUint32))
			return none, false
		}
		return protoreflect.ValueOfUint32(uint32(n)), true
	default:
		if n < 0 {
			d.fault("must be 0 or more")
			return none, false
		}
		return protoreflect.ValueOfUint64(uint64(n)), true
	}
}

// shape returns how deep a value is, and about how many values it holds.
func shape(raw string) (deepest, values int) {
	depth := 0
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			values++
			deepest = max(deepest, depth)
		case c == ',':
			values++
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest, values
}
