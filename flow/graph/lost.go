package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// lostField is a field that was read and is not kept.
type lostField struct{ path, name string }

// findLost compares a graph with the JSON that it was read from.
func (g *Graph) findLost(data []byte) error {
	kept, err := g.Encode()
	if err != nil {
		return err
	}
	was, err := decoded(data)
	if err != nil {
		return err
	}
	is, err := decoded(kept)
	if err != nil {
		return err
	}
	g.lost = lost(nil, "", was, is)
	return nil
}

func decoded(data []byte) (v any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&v)
	return v, err
}

// lost adds the fields of one value that another one has not. Empty values are no loss.
func lost(all []lostField, path string, was, is any) []lostField {
	switch was := was.(type) {
	case map[string]any:
		is, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			at := name
			if path != "" {
				at = path + "." + name
			}
			other, ok := is[name]
			switch {
			case at == "$schema" || empty(was[name]):
			case ok:
				all = lost(all, at, was[name], other)
			default:
				all = append(all, lostField{path, name})
			}
		}
	case []any:
		is, _ := is.([]any)
		for i := range min(len(was), len(is)) {
			all = lost(all, fmt.Sprintf("%s[%d]", path, i), was[i], is[i])
		}
	}
	return all
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
