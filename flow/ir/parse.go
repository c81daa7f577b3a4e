package ir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
	return strings.TrimPrefix(err.Error(), "json: ")
}

// maxNesting bounds the depth of objects and lists. A program that is not too deep for package check needs less.
const maxNesting = 256

// strictly reads JSON, and refuses fields that are not of the type.
func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// precisely is strictly for values: numbers keep all their digits, until they are normalized.
func precisely(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	d.UseNumber()
	return d.Decode(into)
}

// scan looks for what reading a program would not notice, or would take very long to read.
func scan(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	// fields are those of the objects around, nil for a list; key says that a key comes next.
	var fields []map[string]bool
	key := false
	for {
		token, err := d.Token()
		if err != nil {
			return nil // reading says it better
		}
		inside := len(fields) > 0 && fields[len(fields)-1] != nil
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(fields) == maxNesting {
				return &Error{Message: fmt.Sprintf("it is nested more than %d deep, at byte %d", maxNesting, d.InputOffset())}
			}
			if fields = append(fields, nil); token == json.Delim('{') {
				fields[len(fields)-1] = map[string]bool{}
			}
		case json.Delim('}'), json.Delim(']'):
			fields = fields[:len(fields)-1]
		default:
			if name, ok := token.(string); ok && inside && key {
				if fields[len(fields)-1][name] {
					return &Error{Message: fmt.Sprintf("the field %q is given twice in one object, before byte %d", clip(name), d.InputOffset())}
				}
				fields[len(fields)-1][name] = true
				key = false
				continue
			}
		}
		key = len(fields) > 0 && fields[len(fields)-1] != nil
	}
}

// Parse reads a program. An error is an *Error.
func Parse(data []byte) (*Module, error) {
	if len(data) > MaxBytes {
		return nil, &Error{Message: fmt.Sprintf("the program has %d bytes, and at most %d are allowed", len(data), MaxBytes)}
	}
	if err := scan(data); err != nil {
		return nil, err
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
