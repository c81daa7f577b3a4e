package fsm

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package that meets a generic type compiles all of its methods again, and it meets whatever lies below the fields of the types
// that it names. So no btree lies below a View: with 65 of them in sight, each of the packages that read a View compiled 10,000
// functions for 20 seconds. An interface ends what is in sight.
func TestView_noBtreeIsInSight(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(from string, at reflect.Type)
	look = func(from string, at reflect.Type) {
		if seen[at] {
			return
		}
		seen[at] = true
		require.NotEqualf(t, "github.com/google/btree", at.PkgPath(), "%s is in sight of every package that reads a View", from)
		switch at.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			look(from, at.Elem())
		case reflect.Map:
			look(from, at.Key())
			look(from, at.Elem())
		case reflect.Struct:
			for i := range at.NumField() {
				look(from+"."+at.Field(i).Name, at.Field(i).Type)
			}
		}
	}
	look("View", reflect.TypeFor[View]())
	look("Machine", reflect.TypeFor[Machine]())
	require.Greater(t, len(seen), 100, "it looked at nothing")
}
