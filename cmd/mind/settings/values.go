package settings

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

func kindOf(into any) string {
	switch into.(type) {
	case *string:
		return "string"
	case *bool:
		return "bool"
	case *int, *int64:
		return "int"
	case *time.Duration:
		return "duration"
	case *[]string:
		return "list"
	case *map[string]string:
		return "k=v,..."
	case Value:
		return "value"
	default:
		panic(fmt.Sprintf("settings: a key cannot set a %T", into))
	}
}

func setText(into any, text string) error {
	var err error
	switch p := into.(type) {
	case *string:
		*p = text
	case *bool:
		*p, err = strconv.ParseBool(text)
		if err != nil {
			err = fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		*p, err = strconv.Atoi(text)
		if err != nil {
			err = fmt.Errorf("%q is not a whole number", text)
		}
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
		if err != nil {
			err = fmt.Errorf("%q is not a whole number", text)
		}
	case *time.Duration:
		*p, err = time.ParseDuration(text)
		if err != nil {
			err = fmt.Errorf("%q is not a duration, such as 500ms, 10s or 2h", text)
		}
	case *[]string:
		*p = Split(text)
	case *map[string]string:
		*p, err = Pairs(Split(text))
	case Value:
		err = p.SetText(text)
	}
	return err
}

func setNode(into any, node *yaml.Node) error {
	switch p := into.(type) {
	case *[]string:
		if node.Kind == yaml.ScalarNode {
			return setText(into, node.Value)
		}
		return plain(node.Decode(p))
	case *map[string]string:
		return plain(node.Decode(p))
	case Value:
		return p.SetNode(node)
	}
	if node.Kind != yaml.ScalarNode {
		return fmt.Errorf("expected one %s", kindOf(into))
	}
	if node.Tag == "!!null" {
		return nil
	}
	return setText(into, node.Value)
}

// plain removes the prefix that yaml adds to an error: the caller adds a better one.
func plain(err error) error {
	var te *yaml.TypeError
	if errors.As(err, &te) {
		return errors.New(strings.Join(te.Errors, "; "))
	}
	return err
}

// Split splits a comma-separated list, and drops empty parts.
func Split(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Pairs parses texts of the form "k=v".
func Pairs(texts []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, text := range texts {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%q is not of the form KEY=VALUE", text)
		}
		if _, again := pairs[k]; again {
			return nil, fmt.Errorf("%s is given twice", k)
		}
		pairs[k] = v
	}
	return pairs, nil
}

// DecodeStrictly decodes a part of the file. A field that into does not have is an error.
func DecodeStrictly(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	return plain(d.Decode(into))
}
