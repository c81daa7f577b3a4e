package fsm_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// raised is a world whose entries are written at the level of its state, which begins as one that was never raised.
func raised(t require.TestingT) *world {
	w := newWorld(t)
	w.at = level.Base
	w.voters("c1", "c2", "c3")
	return w
}

func (w *world) raise(to level.Level) coordinators.RaiseLevelResult {
	r := do[coordinators.RaiseLevelResult](w, coordinators.RaiseLevel{To: to, VotersIndex: w.m.View().VotersIndex(), Actor: &access.Actor{User: "root"}})
	w.at = w.m.View().Level()
	return r
}

func TestLevel_isRaisedAndNeverFalls(t *testing.T) {
	w := raised(t)
	require.Equal(t, level.Base, w.m.View().Level())
	before := w.m.View().Hash()
	stale := do[coordinators.RaiseLevelResult](w, coordinators.RaiseLevel{To: 3, VotersIndex: w.m.View().VotersIndex() - 1})
	require.Equal(t, reason.MembershipChanged, stale.Refusal.Reason.Code())
	require.Equal(t, level.Base, w.m.View().Level())
	require.Equal(t, reason.New(reason.LevelReached, 2), w.raise(level.Base).Refusal.Reason)

	require.Nil(t, w.raise(level.Newest).Refusal)
	require.Equal(t, level.Newest, w.m.View().Level())
	require.NotEqual(t, before, w.m.View().Hash())
	require.Equal(t, reason.New(reason.LevelReached, int64(level.Newest)), w.raise(3).Refusal.Reason)
	w.at = level.Base
	w.do(work.Tick{})
	require.Equal(t, level.Newest, w.m.View().Level(), "an entry of an older view lowers nothing")

	again := fsm.New()
	require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	require.Equal(t, level.Newest, again.View().Level())
	sameState(t, w.m, again)
}

// TestLevel_anEntryAboveItRaisesIt holds that a replica which applies an entry of a level writes no less than that itself.
func TestLevel_anEntryAboveItRaisesIt(t *testing.T) {
	w := raised(t)
	w.at = level.Newest
	w.do(work.Tick{})
	require.Equal(t, level.Newest, w.m.View().Level())
}

func TestLevel_aReplicaThatDoesNotSupportItStops(t *testing.T) {
	w := raised(t)
	entry := w.entry(coordinators.RaiseLevel{To: level.Newest + 1, VotersIndex: w.m.View().VotersIndex()})
	require.ErrorContains(t, fsm.CheckEntry(entry), "the cluster was raised to feature level 8, and this version of mind supports levels up to 7: start a newer version")
	require.Panics(t, func() { w.m.Apply(w.index+1, entry) })
}

func TestLevel_whatItLacksIsRefusedWithASentence(t *testing.T) {
	never := oneGPU()
	never.Retry.Never = true
	for _, c := range []kernel.Command{
		work.ControlJob{Action: work.ActionCancel, Vouch: true}, work.Recover{}, work.NoteSnapshot{}, work.SubmitJobs{Jobs: []work.NewJob{never}},
	} {
		_, err := kernel.Encode(2, c)
		var locked *level.Locked
		require.ErrorAs(t, err, &locked, "%T", c)
		require.ErrorContains(t, err, "needs feature level 3, and the cluster is at 2: upgrade all coordinators, then see `mind raft level`")
		_, err = kernel.Encode(3, c)
		require.NoError(t, err)
	}
}

// fields are what a version of mind knew: the paths of CBOR keys, by "command 1" and "record 30".
type fields map[string]map[string]bool

// readFields reads a file below testdata/levels. Each was made from the source of the version that wrote the level first, and
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

// locked is how many fields are refused at a level that was released, because no version of mind of that time could read them.
var locked = map[level.Level]int{
	// Of level 3: Never, Vouch, and those of Recover and NoteSnapshot. Of level 5: Retention, and those of Pin and
	// ReportCheckpoints. Of level 6: Queue.Parent, arrays, and those of PutPolicy and PreemptJobs.
	level.Base: 181,
	// Of level 7: Notice, domains, limits by type, GPU hours and guarantees, and those of PutWindow, DeleteWindow, PromiseStarts,
	// PutSchedule, DeleteSchedule and RunSchedules.
	6: 121,
}

// submitForm is the newest form of SubmitJobs at such a level.
var submitForm = map[level.Level]byte{level.Base: 3, 6: 6}

// TestLevel_commandsHaveNoFieldAboveIt sets each field of each command, one after the other, and holds that what is encoded at
// a level is what the version of mind that wrote it first can read; or that it is refused.
func TestLevel_commandsHaveNoFieldAboveIt(t *testing.T) {
	for at := range locked {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			known := readFields(t, at)
			written, refused := 0, 0
			for _, def := range registry.Commands() {
				eachField(reflect.TypeOf(def.Blank()).Elem(), func(c reflect.Value, path string) {
					raw, err := kernel.Encode(at, c.Interface().(kernel.Command))
					if err != nil {
						require.IsType(t, &level.Locked{}, err, "%s%s", def.Name, path)
						refused++
						return
					}
					written++
					number := binary.BigEndian.Uint16(raw)
					if number == (coordinators.RaiseLevel{}).CommandNumber() {
						return // It is written when all replicas know it.
					}
					if number == (work.SubmitJobs{}).CommandNumber() {
						require.LessOrEqual(t, raw[3], submitForm[at], "SubmitJobs%s: the form of the jobs", path)
						return
					}
					known.check(t, fmt.Sprintf("command %d", number), raw[3:])
				})
			}
			require.Greater(t, written, 200)
			require.Equal(t, locked[at], refused, "fields that are refused")
		})
	}
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
	for at := range locked {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			known := readFields(t, at)
			rapid.Check(t, func(rt *rapid.T) {
				g := &generator{T: rt, w: raised(rt)}
				if at > level.Base {
					require.Nil(rt, g.w.raise(at).Refusal)
				}
				for range rapid.IntRange(1, 30).Draw(rt, "entries") {
					g.w.later(time.Duration(rapid.SampledFrom([]int64{0, 1e9, 60e9, 25 * 3600e9}).Draw(rt, "dt")))
					c := g.command()
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

func TestLevel_eachUnlocksSomething(t *testing.T) {
	for at := level.Base; at <= level.Newest; at++ {
		require.NotEmpty(t, level.Unlocks(at), "level %d", at)
	}
	require.Empty(t, level.Unlocks(level.Newest+1), "a gate above the newest level never opens")
}
