package machine

import (
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// MaxFrame bounds a stored frame; bytes.
const MaxFrame = 64 << 10

// phase says which part of a flow runs.
type phase uint8

const (
	running phase = iota
	// onCancel runs the flow's on_cancel.
	onCancel
	// undoing runs the compensations, the last one first.
	undoing
	ended
)

// Frame is the continuation of an execution.
type Frame struct {
	Vars  map[string]any `cbor:"1,keyasint,omitempty"`
	Main  *body          `cbor:"2,keyasint,omitempty"`
	Phase phase          `cbor:"3,keyasint,omitempty"`
	// After is the body of on_cancel, or of the compensation that runs.
	After *body `cbor:"4,keyasint,omitempty"`
	// Undo are the compensations of what has been done.
	Undo []undo `cbor:"5,keyasint,omitempty"`
	// LastWait is the number of the newest wait.
	LastWait uint32 `cbor:"6,keyasint,omitempty"`
	// Blocks is how many were started.
	Blocks int64 `cbor:"7,keyasint,omitempty"`
	// Pending are results that came and were not used yet, because fuel ran out.
	Pending map[uint32]storedResult `cbor:"8,keyasint,omitempty"`
	// Deadline is the wait of the flow's timeout.
	Deadline uint32 `cbor:"9,keyasint,omitempty"`
	Error    *Error `cbor:"10,keyasint,omitempty"`
}

// body is a list of blocks that runs.
type body struct {
	// PC is the index of the block that runs or runs next.
	PC   int            `cbor:"1,keyasint,omitempty"`
	Last any            `cbor:"2,keyasint,omitempty"`
	Cur  *act           `cbor:"3,keyasint,omitempty"`
	Vars map[string]any `cbor:"4,keyasint,omitempty"`
	// Own says that names bound here end with the body.
	Own bool `cbor:"5,keyasint,omitempty"`
}

// mode says what an act does beside running its block.
type mode uint8

const (
	plain mode = iota
	// backingOff waits before another attempt.
	backingOff
	// handling runs the body of a failure handler.
	handling
	// asking waits for people to say what to do about a failure.
	asking
)

// act is a block that runs.
type act struct {
	Attempt int  `cbor:"1,keyasint,omitempty"`
	Mode    mode `cbor:"2,keyasint,omitempty"`
	// Wait is the outstanding effect, Timer the wait of the block's timeout.
	Wait  uint32 `cbor:"3,keyasint,omitempty"`
	Timer uint32 `cbor:"4,keyasint,omitempty"`
	// Stage is where the block stands, by its kind.
	Stage int `cbor:"5,keyasint,omitempty"`
	// Next is the next item, branch or iteration.
	Next  int   `cbor:"6,keyasint,omitempty"`
	Items []any `cbor:"7,keyasint,omitempty"`
	Out   []any `cbor:"8,keyasint,omitempty"`
	Kids  []kid `cbor:"9,keyasint,omitempty"`
	// Err is the error that a handler, a catch or a decision is about, that waits for a finally, or the first one of bodies that
	// run beside each other; Value a result that waits.
	Err      *Error `cbor:"10,keyasint,omitempty"`
	Value    any    `cbor:"11,keyasint,omitempty"`
	Returned bool   `cbor:"12,keyasint,omitempty"`
	// Handler is the index of the failure handler that runs.
	Handler int `cbor:"13,keyasint,omitempty"`
	// Failed says that the block has failed for good. Err is then still what the block itself needs to go on.
	Failed bool `cbor:"14,keyasint,omitempty"`
}

// kid is a body within a block. Index says which: of the cases, arms, items or branches; -1: the else.
type kid struct {
	Index int   `cbor:"1,keyasint,omitempty"`
	Body  *body `cbor:"2,keyasint,omitempty"`
	// Over says that it has ended and failed.
	Over bool `cbor:"3,keyasint,omitempty"`
}

// undo is a registered compensation: the path of its block, and the names that it had.
type undo struct {
	Block  string         `cbor:"1,keyasint,omitempty"`
	Result any            `cbor:"2,keyasint,omitempty"`
	Vars   map[string]any `cbor:"3,keyasint,omitempty"`
}

// waits counts the effects that have no result yet.
func (f *Frame) waits() int {
	n := f.Main.waits() + f.After.waits()
	if f.Deadline != 0 {
		n++
	}
	return n
}

func (b *body) waits() (n int) {
	if b == nil || b.Cur == nil {
		return 0
	}
	for _, wait := range []uint32{b.Cur.Wait, b.Cur.Timer} {
		if wait != 0 {
			n++
		}
	}
	for i := range b.Cur.Kids {
		n += b.Cur.Kids[i].Body.waits()
	}
	return n
}

type storedResult struct {
	Value any    `cbor:"1,keyasint,omitempty"`
	Err   *Error `cbor:"2,keyasint,omitempty"`
}

var encoding = func() cbor.EncMode {
	m, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic("flow: " + err.Error())
	}
	return m
}()

var decoding = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		// Values have int64 and map[string]any, whatever their size and sign.
		IntDec:          cbor.IntDecConvertSignedOrFail,
		DefaultMapType:  reflect.TypeOf(map[string]any(nil)),
		MaxNestedLevels: 256,
	}.DecMode()
	if err != nil {
		panic("flow: " + err.Error())
	}
	return m
}()

// EncodeValue stores a value.
func EncodeValue(v any) ([]byte, error) { return encoding.Marshal(v) }

// DecodeValue reads a stored value.
func DecodeValue(data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var v any
	err := decoding.Unmarshal(data, &v)
	return v, err
}

func encodeFrame(f *Frame) ([]byte, error) { return encoding.Marshal(f) }

func decodeFrame(data []byte) (*Frame, error) {
	f := new(Frame)
	if err := decoding.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("reading the frame of an execution: %w", err)
	}
	return f, nil
}
