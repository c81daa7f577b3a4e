// Package tunnel encodes the messages of tunnels for WebSockets.
//
// A binary message has bytes: a byte with the channel (0 stdin, 1 stdout, 2 stderr; 128 more where the channel ends), the
// offset of the first byte as 8 bytes, most significant first, and the bytes. All other messages are text: TunnelInput or
// TunnelOutput as JSON (scaimind/v1/tunnels.proto), or an error, which is the last message of a connection.
package tunnel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// Subprotocol is the one that the WebSockets of tunnels speak.
	Subprotocol = "mind.tunnel.v1"
	// MaxMessage limits a message.
	MaxMessage = 256 << 10
	// Window is how much input may be on the way: sent, and not yet taken.
	Window = 256 << 10
	// MaxPiece is a good size for the bytes of a message.
	MaxPiece = 32 << 10
)

// Error is the error that ends a connection.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

const (
	headerBytes = 9
	endOf       = 0x80
)

// Bytes encodes bytes of a channel as a binary message.
func Bytes(m *v1.TunnelBytes) []byte {
	b := make([]byte, headerBytes, headerBytes+len(m.GetData()))
	b[0] = byte(m.GetChannel())
	if m.GetEof() {
		b[0] |= endOf
	}
	binary.BigEndian.PutUint64(b[1:], m.GetOffset())
	return append(b, m.GetData()...)
}

var errShort = errors.New("a binary message begins with a channel and an offset, 9 bytes")

func parseBytes(data []byte) (*v1.TunnelBytes, error) {
	if len(data) < headerBytes {
		return nil, errShort
	}
	return &v1.TunnelBytes{
		Channel: v1.TunnelChannel_Value(data[0] &^ endOf), Eof: data[0]&endOf != 0, Offset: binary.BigEndian.Uint64(data[1:]), Data: data[headerBytes:],
	}, nil
}

var names = protojson.MarshalOptions{UseProtoNames: true}

// Input encodes a message to the task.
func Input(m *v1.TunnelInput) (text bool, data []byte, err error) {
	if m.GetBytes() != nil {
		return false, Bytes(m.GetBytes()), nil
	}
	data, err = names.Marshal(m)
	return true, data, err
}

// Output encodes a message from the task.
func Output(m *v1.TunnelOutput) (text bool, data []byte, err error) {
	if m.GetBytes() != nil {
		return false, Bytes(m.GetBytes()), nil
	}
	data, err = names.Marshal(m)
	return true, data, err
}

// ParseInput parses a message to the task.
func ParseInput(text bool, data []byte) (*v1.TunnelInput, error) {
	if !text {
		bytes, err := parseBytes(data)
		return &v1.TunnelInput{Bytes: bytes}, err
	}
	m := &v1.TunnelInput{}
	if err := protojson.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("a text message is no input: %w", err)
	}
	if m.GetBytes() != nil {
		return nil, errors.New("bytes come in binary messages")
	}
	return m, nil
}

// ParseOutput parses a message from the task. An error that the gateway tells is an *Error.
func ParseOutput(text bool, data []byte) (*v1.TunnelOutput, error) {
	if !text {
		bytes, err := parseBytes(data)
		return &v1.TunnelOutput{Bytes: bytes}, err
	}
	var told struct {
		Error *Error `json:"error"`
	}
	if json.Unmarshal(data, &told) == nil && told.Error != nil {
		return nil, told.Error
	}
	m := &v1.TunnelOutput{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("a message of the gateway is not understood: %w", err)
	}
	return m, nil
}

// Failure encodes the error that ends a connection.
func Failure(e *Error) []byte {
	data, err := json.Marshal(map[string]*Error{"error": e})
	if err != nil { // impossible: it has two texts
		panic(err)
	}
	return data
}
