package kernel

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashFormat_changesWithTheFields(t *testing.T) {
	type inner struct {
		A uint64 `cbor:"1,keyasint"`
	}
	type innerMore struct {
		A uint64 `cbor:"1,keyasint"`
		B bool   `cbor:"2,keyasint"`
	}
	build := func(field reflect.Type, tag string) any {
		return reflect.Zero(reflect.StructOf([]reflect.StructField{{Name: "F", Type: field, Tag: reflect.StructTag(`cbor:"` + tag + `"`)}})).Interface()
	}
	seen := map[string]string{}
	for name, row := range map[string]any{
		"a number": build(reflect.TypeFor[uint64](), "1"), "a smaller number": build(reflect.TypeFor[uint32](), "1"),
		"another tag": build(reflect.TypeFor[uint64](), "2"), "not kept": build(reflect.TypeFor[uint64](), "-"),
		"a row": build(reflect.TypeFor[inner](), "1"), "a pointer": build(reflect.TypeFor[*inner](), "1"),
		"rows": build(reflect.TypeFor[[]inner](), "1"), "rows with more in them": build(reflect.TypeFor[[]innerMore](), "1"),
	} {
		format := formatOf(row)
		require.Empty(t, seen[format], "%s is the same as %s", name, seen[format])
		seen[format] = name
		require.Equal(t, format, formatOf(row))
	}
}

// formatOf is describeFormat of one kind of row.
func formatOf(row any) string {
	var b strings.Builder
	describeType(&b, reflect.TypeOf(row))
	return b.String()
}
