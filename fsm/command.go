package fsm

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Command is one change of the state. Only this package defines commands.
type Command interface {
	commandType() uint16
	apply(tx *tx) any
}

// bodied is a command that writes its body by hand instead of as CBOR.
type bodied interface{ appendBody([]byte) []byte }

// parsed is the other side of bodied.
type parsed interface{ parseBody([]byte) error }

// flagIgnorable marks a command that a replica which does not know its type may skip.
const flagIgnorable byte = 1 << 0

// commandHeaderSize is the type (2 bytes, big endian) and the flags (1 byte) before the body of a command.
const commandHeaderSize = 3

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
		// What was accepted into the log must not stop the replicas: text is not checked again.
		UTF8:             cbor.UTF8DecodeInvalid,
		MaxArrayElements: 1 << 24,
		MaxMapPairs:      1 << 24,
	}.DecMode()
	if err != nil {
		panic("fsm: CBOR decoder: " + err.Error())
	}
	return m
}()

// Encode makes the bytes of a command, for Pack.
func Encode(c Command) ([]byte, error) {
	if b, ok := c.(bodied); ok {
		out := binary.BigEndian.AppendUint16(make([]byte, 0, 1024), c.commandType())
		return b.appendBody(append(out, 0)), nil
	}
	body, err := encMode.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", c, err)
	}
	out := make([]byte, commandHeaderSize, commandHeaderSize+len(body))
	binary.BigEndian.PutUint16(out, c.commandType())
	return append(out, body...), nil
}
