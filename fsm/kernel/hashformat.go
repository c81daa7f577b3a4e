package kernel

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// hashRevision is raised when a hash comes to mean something else although no row has changed its fields.
const hashRevision = 1

// describeFormat names what the hash is taken of: the kinds of rows and their fields.
func describeFormat(records []RecordDef) string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d", hashRevision)
	for _, r := range records {
		describeType(&b, reflect.TypeOf(r.Blank()).Elem())
	}
	return fmt.Sprintf("%08x", uint32(xxhash.Sum64String(b.String())))
}

// describeType writes the fields that are kept, in their order, however deep they lie.
func describeType(b *strings.Builder, t reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		fmt.Fprintf(b, "%s{", t.Name())
		for f := range t.Fields() {
			tag := f.Tag.Get("cbor")
			if !f.IsExported() || tag == "-" {
				continue
			}
			fmt.Fprintf(b, "%s %s ", f.Name, tag)
			describeType(b, f.Type)
		}
		b.WriteString("}")
	case reflect.Slice, reflect.Pointer, reflect.Array:
		fmt.Fprintf(b, "%s of ", t.Kind())
		describeType(b, t.Elem())
	default:
		b.WriteString(t.Kind().String())
		b.WriteString(";")
	}
}
