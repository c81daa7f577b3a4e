package request

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
)

// fileLimit is far larger than any valid request. It stops reads from a device or a pipe that never ends.
const fileLimit = 8 << 20

// Read reads a YAML or JSON file with the body of a request; "-" is stdin. Its contents are sent as written: a date stays
// text, and a key that looks like a number stays a key.
func Read(file string) (Object, error) {
	text, err := Text(file)
	if err != nil {
		return nil, err
	}
	return Decode(file, text)
}

// Decode is Read for text that was read from a file of the given name.
func Decode(file string, text []byte) (Object, error) {
	documents := yaml.NewDecoder(bytes.NewReader(asYAML(text)))
	var node yaml.Node
	switch err := documents.Decode(&node); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is empty", file)
	case err != nil:
		return nil, fmt.Errorf("%s is neither YAML nor JSON: %w", file, err)
	case node.Content[0].Kind != yaml.MappingNode:
		return nil, fmt.Errorf("%s must hold an object such as {name: ...}, and nothing else", file)
	}
	if err := documents.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s holds more than one document: put each into a file of its own", file)
	}
	if err := asWritten(&node); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	body := Object{}
	if err := node.Decode((*map[string]any)(&body)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for field, v := range body {
		// Flags are set in these objects; a value that is not an object would be overwritten silently.
		if AsObject(v) == nil && v != nil && strings.HasSuffix(field, "_config") {
			return nil, fmt.Errorf("%s: %s must be an object", file, field)
		}
	}
	return body, nil
}

// Text reads a file; "-" is stdin.
func Text(file string) ([]byte, error) {
	from := os.Stdin
	if file != "-" {
		var err error
		if from, err = os.Open(file); err != nil {
			return nil, err
		}
		defer from.Close()
	}
	text, err := io.ReadAll(io.LimitReader(from, fileLimit+1))
	if err != nil {
		return nil, err
	}
	if len(text) > fileLimit {
		return nil, fmt.Errorf("%s is larger than %s", file, render.Size(fileLimit))
	}
	return text, nil
}

// asWritten keeps YAML from interpreting text as a time or a number if JSON would not.
func asWritten(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		switch tag := n.ShortTag(); {
		case tag == "!!timestamp":
			n.Tag = "!!str"
		case tag == "!!float" && strings.ContainsAny(n.Value, "nN"): // .nan, .inf
			return fmt.Errorf("line %d: %s is not a number that can be sent", n.Line, n.Value)
		}
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode && c.ShortTag() != "!!merge" {
			c.Tag = "!!str"
		}
		if err := asWritten(c); err != nil {
			return err
		}
	}
	return nil
}

// CheckUTF8 refuses text that is not UTF-8. JSON would silently carry other characters in its place.
func CheckUTF8(v any, at string) error {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return fmt.Errorf("%s: %q is not UTF-8", at, v)
		}
	case []string:
		for i, s := range v {
			if err := CheckUTF8(s, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := errors.Join(CheckUTF8(name, at), CheckUTF8(v[name], at+"."+name)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := CheckUTF8(v[name], strings.TrimPrefix(at+"."+name, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}
