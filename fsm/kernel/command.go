package kernel

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/mindcoordinator/mind/fsm/level"
)

// Command is one change of the state, as plain data. Its domain has registered the function that applies it, for its number.
type Command interface {
	// CommandNumber is its type in log entries. Numbers are append-only: never reused, never changed.
	CommandNumber() uint16
}

// BodyWriter is a command that writes its body by hand instead of as CBOR.
type BodyWriter interface{ AppendBody([]byte) []byte }

// BodyParser is the other side of BodyWriter.
type BodyParser interface{ ParseBody([]byte) error }

// flagIgnorable marks a command that a replica which does not know its type may skip.
const flagIgnorable byte = 1 << 0

// Demanding is a command that not every version of mind can apply although it can read it.
type Demanding interface {
	// Applicable says why a version that supports these levels cannot apply it. A replica stops there.
	Applicable(supported level.Range) error
}

// commandHeaderSize is the type (2 bytes, big endian) and the flags (1 byte) before the body of a command.
const commandHeaderSize = 3

// CommandDef makes a command known.
type CommandDef struct {
	Number uint16
	Name   string
	// Blank returns a pointer to a command with nothing in it.
	Blank func() Command
	apply func(tx *Tx, c Command) any
	audit func(tx *Tx, c Command, result any)
	// refusal returns the refusal in a result; nil: the results of the command have none.
	refusal func(result any) *Refusal
}

// Define makes a command known: its name, the function that applies it, and the one that records its actor and result (nil: it is no
// command of people). The proposer gets the result of apply.
func Define[T, R any, P interface {
	*T
	Command
}](name string, apply func(tx *Tx, c *T) R, audit func(tx *Tx, c *T, result R)) CommandDef {
	def := CommandDef{
		Number: P(new(T)).CommandNumber(),
		Name:   name,
		Blank:  func() Command { return P(new(T)) },
		apply:  func(tx *Tx, c Command) any { return apply(tx, (*T)(c.(P))) },
	}
	if field, ok := refusalOf(reflect.TypeFor[R]()); ok {
		def.refusal = func(result any) *Refusal {
			r, _ := reflect.ValueOf(result).FieldByIndex(field.Index).Interface().(*Refusal)
			return r
		}
	}
	if audit != nil {
		def.audit = func(tx *Tx, c Command, result any) { audit(tx, (*T)(c.(P)), result.(R)) }
	}
	return def
}

// refusalOf returns the field of a result that has the refusal.
func refusalOf(result reflect.Type) (reflect.StructField, bool) {
	if result.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	return result.FieldByName("Refusal")
}

// Verbs are the commands of a package. The file of each verb adds its own when the program starts, so that a verb is one
// file.
type Verbs []CommandDef

// Add adds a command.
func (v *Verbs) Add(def CommandDef) { *v = append(*v, def) }

var encMode = func() cbor.EncMode {
	m, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic("fsm: CBOR encoder: " + err.Error())
	}
	return m
}()

var decMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		// A field that this version does not know would make it differ from one that does.
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		// An entry that was accepted into the log must not stop the replicas: text is not checked again.
		UTF8:             cbor.UTF8DecodeInvalid,
		MaxArrayElements: 1 << 24,
		MaxMapPairs:      1 << 24,
	}.DecMode()
	if err != nil {
		panic("fsm: CBOR decoder: " + err.Error())
	}
	return m
}()

// Leveled is a command that is not the same at every level.
type Leveled interface {
	// AtLevel returns the command as it is written at a level: one that has the same effect, as far as the level has it.
	// A *level.Locked says that it has not.
	AtLevel(at level.Level) (Command, error)
}

// Encode makes the bytes of a command as it is written at a level, for Pack.
func Encode(at level.Level, c Command) ([]byte, error) {
	if l, ok := c.(Leveled); ok {
		var err error
		if c, err = l.AtLevel(at); err != nil {
			return nil, err
		}
	}
	if b, ok := c.(BodyWriter); ok {
		out := binary.BigEndian.AppendUint16(make([]byte, 0, 1024), c.CommandNumber())
		return b.AppendBody(append(out, 0)), nil
	}
	body, err := encMode.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", c, err)
	}
	out := make([]byte, commandHeaderSize, commandHeaderSize+len(body))
	binary.BigEndian.PutUint16(out, c.CommandNumber())
	return append(out, body...), nil
}

// EncodeResult makes the bytes of the result of a command, for DecodeResult.
func EncodeResult(result any) ([]byte, error) { return encMode.Marshal(result) }

// DecodeResult reads the result of a command into a pointer.
func DecodeResult(data []byte, result any) error { return resultMode.Unmarshal(data, result) }

// resultMode reads results that another version of mind may have written: they answer a caller and change no state.
var resultMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 24}.DecMode()
	if err != nil {
		panic("fsm: CBOR decoder: " + err.Error())
	}
	return m
}()

// Unmarshal reads a row of a snapshot. A field that it does not know is an error.
func Unmarshal(data []byte, row any) error { return decMode.Unmarshal(data, row) }
