package ir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Error says why JSON is no program.
type Error struct {
	// Block is the id of the block that cannot be read, or "".
	Block   string
	Message string
}

func (e *Error) Error() string {
	if e.Block == "" {
		return e.Message
	}
	return fmt.Sprintf("block %q: %s", e.Block, e.Message)
}

// located says in which block something could not be read. The innermost block counts.
func located(id string, kind Kind, err error) error {
	if known := new(Error); errors.As(err, &known) {
		return err
	}
	if id == "" {
		id = string(kind)
	}
	return &Error{Block: id, Message: plainly(err)}
}

// plainly says what is wrong with JSON without the names of Go.
func plainly(err error) string {
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Sprintf("%s may not be a %s", wrong.Field, wrong.Value)
	}
	if wrong := new(json.SyntaxError); errors.As(err, &wrong) {
		return fmt.Sprintf("this is no JSON: %v, at byte %d", wrong, wrong.Offset)
	}
	return err.Error()
}

// Parse reads a program. An error is an *Error.
func Parse(data []byte) (*Module, error) {
	if len(data) > MaxBytes {
		return nil, &Error{Message: fmt.Sprintf("the program has %d bytes, and at most %d are allowed", len(data), MaxBytes)}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var m Module
	if err := decoder.Decode(&m); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, &Error{Message: "this is no JSON: it ends too early"}
		}
		return nil, located("", "", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &Error{Message: "there is more after the program"}
	}
	return &m, nil
}
