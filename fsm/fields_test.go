package fsm_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// fields are the fields that a version of mind knew: the paths of CBOR keys, by "command 1" and "record 30".
type fields map[string]map[string]bool

// readFields reads a file below testdata/levels. Each was made with MIND_WRITE_FIELDS by the version that had the level first, and
// never changes.
func readFields(t *testing.T, at level.Level) fields {
	f, err := os.Open(fmt.Sprintf("testdata/levels/%d", at))
	require.NoError(t, err)
	defer f.Close()
	known := fields{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		paths := map[string]bool{}
		for _, p := range words[2:] {
			paths[p] = true
		}
		known[words[0]+" "+words[1]] = paths
	}
	return known
}

// check holds that CBOR has no key that is not known.
func (f fields) check(t require.TestingT, of string, body []byte) {
	known, ok := f[of]
	require.True(t, ok, "%s is not known", of)
	var v any
	require.NoError(t, cbor.Unmarshal(body, &v))
	walkKeys(v, "", func(path string) { require.True(t, known[path], "%s: the field %s is not known", of, path) })
}

func walkKeys(v any, path string, see func(string)) {
	switch v := v.(type) {
	case map[any]any:
		for k, inner := range v {
			at := path
			switch k := k.(type) {
			case uint64:
				at = path + "." + strconv.FormatUint(k, 10)
				see(at)
			}
			walkKeys(inner, at, see)
		}
	case []any:
		for _, inner := range v {
			walkKeys(inner, path, see)
		}
	}
}

// TestLevel_commandsHaveNoFieldAboveIt sets each field of each command, one after the other, and holds that what is encoded at
// a level is what the version of mind that wrote it first can read; or that it is refused.
func TestLevel_commandsHaveNoFieldAboveIt(t *testing.T) {
	if os.Getenv("MIND_WRITE_FIELDS") != "" {
		writeFields(t, level.Released)
	}
	for at := level.Oldest; at <= level.Released; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			known := readFields(t, at)
			written := 0
			for _, def := range registry.Commands() {
				eachField(reflect.TypeOf(def.Blank()).Elem(), func(c reflect.Value, path string) {
					raw, err := kernel.Encode(at, c.Interface().(kernel.Command))
					if err != nil {
						require.IsType(t, &level.Locked{}, err, "%s%s", def.Name, path)
						return
					}
					written++
					number := binary.BigEndian.Uint16(raw)
					if number == (jobverbs.SubmitJobs{}).CommandNumber() {
						return // Its body is not CBOR: it has a version of its own.
					}
					known.check(t, fmt.Sprintf("command %d", number), raw[3:])
				})
			}
			require.Greater(t, written, 200)
		})
	}
}

// writeFields writes the file of a level: the fields of each command and of each kind of row.
func writeFields(t *testing.T, at level.Level) {
	name := fmt.Sprintf("testdata/levels/%d", at)
	_, err := os.Stat(name)
	require.ErrorIs(t, err, os.ErrNotExist, "the fields of a level are never written again")
	var out strings.Builder
	line := func(kind string, number uint16, of reflect.Type) {
		paths := map[string]bool{}
		eachField(of, func(v reflect.Value, _ string) {
			raw, err := cbor.Marshal(v.Interface())
			require.NoError(t, err)
			var any any
			require.NoError(t, cbor.Unmarshal(raw, &any))
			walkKeys(any, "", func(path string) { paths[path] = true })
		})
		fmt.Fprintln(&out, kind, number, strings.Join(slices.Sorted(maps.Keys(paths)), " "))
	}
	for _, def := range registry.Commands() {
		line("command", def.Number, reflect.TypeOf(def.Blank()).Elem())
	}
	for _, def := range registry.Records() {
		line("record", def.Number, reflect.TypeOf(def.Blank()).Elem())
	}
	require.NoError(t, os.MkdirAll("testdata/levels", 0o755))
	require.NoError(t, os.WriteFile(name, []byte(out.String()), 0o644))
}

// eachField calls f with a value for each field that can be reached, in which that field alone is set.
func eachField(of reflect.Type, f func(v reflect.Value, path string)) {
	var walk func(t reflect.Type, path string, depth int, wrap func(reflect.Value) reflect.Value)
	walk = func(t reflect.Type, path string, depth int, wrap func(reflect.Value) reflect.Value) {
		if depth > 6 {
			return
		}
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				if !t.Field(i).IsExported() {
					continue
				}
				walk(t.Field(i).Type, path+"."+t.Field(i).Name, depth+1, func(v reflect.Value) reflect.Value {
					s := reflect.New(t).Elem()
					s.Field(i).Set(v)
					return wrap(s)
				})
			}
		case reflect.Slice:
			walk(t.Elem(), path, depth+1, func(v reflect.Value) reflect.Value {
				return wrap(reflect.Append(reflect.MakeSlice(t, 0, 1), v))
			})
		case reflect.Pointer:
			walk(t.Elem(), path, depth+1, func(v reflect.Value) reflect.Value {
				p := reflect.New(t.Elem())
				p.Elem().Set(v)
				return wrap(p)
			})
		case reflect.Map:
			m := reflect.MakeMap(t)
			m.SetMapIndex(reflect.ValueOf("k").Convert(t.Key()), reflect.Zero(t.Elem()))
			f(wrap(m), path)
		case reflect.Bool:
			f(wrap(reflect.ValueOf(true).Convert(t)), path)
		case reflect.String:
			f(wrap(reflect.ValueOf("x").Convert(t)), path)
		case reflect.Float64:
			f(wrap(reflect.ValueOf(1.5)), path)
		default:
			f(wrap(reflect.ValueOf(1).Convert(t)), path)
		}
	}
	walk(of, "", 0, func(v reflect.Value) reflect.Value { return v })
}

// TestLevel_theStateHasNoFieldAboveIt drives a state of a level with random commands, and holds that its snapshot has nothing
// that the version of mind that wrote the level first could not read.
func TestLevel_theStateHasNoFieldAboveIt(t *testing.T) {
	for at := level.Oldest; at <= level.Released; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			known := readFields(t, at)
			rapid.Check(t, func(rt *rapid.T) {
				g := &generator{T: rt, w: newWorld(rt)}
				g.w.at = at
				g.w.voters("c1", "c2", "c3")
				for range rapid.IntRange(1, 30).Draw(rt, "entries") {
					g.w.later(time.Duration(rapid.SampledFrom([]int64{0, 1e9, 60e9, 25 * 3600e9}).Draw(rt, "dt")))
					c := g.command()
					var locked *level.Locked
					if _, err := kernel.Encode(at, c); errors.As(err, &locked) {
						continue
					}
					if _, ok := c.(coordinators.RaiseLevel); !ok {
						g.w.do(c)
					}
				}
				raw := snapshotBytes(rt, g.w.m)
				require.Equal(rt, uint16(at), binary.BigEndian.Uint16(raw[8:]))
				rest := raw[10 : len(raw)-32]
				next := func() uint64 {
					n, used := binary.Uvarint(rest)
					require.Positive(rt, used)
					rest = rest[used:]
					return n
				}
				rest = rest[next():]
				for number := next(); number != 0; number = next() {
					size := next()
					known.check(rt, fmt.Sprintf("record %d", number), rest[:size])
					rest = rest[size:]
				}
			})
		})
	}
}
