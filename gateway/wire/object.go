package wire

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A field that the protos mark with json has the text of a JSON object. It passes as it is: a message of such an object would lose
// digits of its numbers, and take many times the memory.

// JSONField reports whether a field has the text of a JSON object.
func JSONField(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok || !proto.HasExtension(options, v1.E_Json) {
		return false
	}
	marked, _ := proto.GetExtension(options, v1.E_Json).(bool)
	return marked
}

// plain reads an object as its text.
func (d *decoder) plain(f *schemaField) (protoreflect.Value, bool) {
	if d.text[d.at] != '{' {
		d.fault("must be %s, not %s", f.describe, d.skip())
		return protoreflect.Value{}, false
	}
	start := d.at
	d.skip()
	raw := d.text[start:d.at]
	if deepest, _ := shape(raw); deepest > maxNesting {
		d.fault("is nested more than %d levels deep", maxNesting)
		return protoreflect.Value{}, false
	}
	if !d.once(start) {
		return protoreflect.Value{}, false
	}
	return protoreflect.ValueOfString(raw), true
}

// once looks for names that are given twice in the value from start to here, and reports whether there are none.
func (d *decoder) once(start int) bool {
	end := d.at
	d.at = start
	name, found := d.twice()
	d.at = end
	if found {
		d.fault("has %q twice in one object", Printable(name))
	}
	return !found
}

// appendPlain writes an object that is there as text. hide omits the credentials of URLs in its strings.
func appendPlain(b []byte, v protoreflect.Value, hide bool) []byte {
	text := v.String()
	switch {
	case text == "":
		return append(b, "null"...)
	case !hide:
		return append(b, text...)
	}
	for text != "" {
		from := strings.IndexByte(text, '"')
		if from < 0 {
			break
		}
		to := from + 1
		for to < len(text) && text[to] != '"' {
			if text[to] == '\\' {
				to++
			}
			to++
		}
		to = min(to+1, len(text))
		b = append(b, text[:from]...)
		var plain string
		if token := text[from:to]; json.Unmarshal([]byte(token), &plain) == nil && strings.Contains(plain, "://") {
			b = AppendString(b, hideCredentials(plain))
		} else {
			b = append(b, token...)
		}
		text = text[to:]
	}
	return append(b, text...)
}
