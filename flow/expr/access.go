package expr

import (
	"unicode/utf8"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// lengthField is a field that strings, lists and maps without such a key have.
const lengthField = "length"

func (m *machine) list(n *syntax.Node) (any, error) {
	if err := m.takeList(n.At, int64(len(n.Args))); err != nil {
		return nil, err
	}
	out := make([]any, len(n.Args))
	for i, arg := range n.Args {
		var err error
		if out[i], err = m.eval(arg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m *machine) object(n *syntax.Node) (any, error) {
	m.built = true
	if err := m.take(n.At, mapBytes+entryBytes*int64(len(n.Args)/2)); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(n.Args)/2)
	for i := 0; i < len(n.Args); i += 2 {
		k, err := m.eval(n.Args[i])
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, failed(n.Args[i].At, codeType, "the key of a map has to be a string, not %s", described(k))
		}
		if _, twice := out[key]; twice {
			return nil, failed(n.Args[i].At, codeRange, "the key %s is twice in the map", shortened(key))
		}
		if out[key], err = m.eval(n.Args[i+1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// selected returns a field of a map, or null where there is none.
func (m *machine) selected(n *syntax.Node, v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		field, ok := v[n.Name]
		if !ok && n.Name == lengthField {
			return int64(len(v)), nil
		}
		return field, nil
	case string, []any:
		if n.Name == lengthField {
			return m.size(n.At, v)
		}
	}
	return nil, failed(n.At, codeType, "%s has no field %s", described(v), n.Name)
}

func has(n *syntax.Node, v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case map[string]any:
		_, ok := v[n.Name]
		return ok, nil
	}
	return nil, failed(n.At, codeType, "has takes a field of a map, not of %s", described(v))
}

func indexed(n *syntax.Node, v, index any) (any, error) {
	switch v := v.(type) {
	case nil:
		_, isKey := index.(string)
		if _, ok := wholeNumber(index); ok || isKey {
			return nil, nil
		}
	case []any:
		i, ok := wholeNumber(index)
		if !ok {
			break
		}
		if i < 0 || i >= int64(len(v)) {
			return nil, failed(n.At, codeIndex, "there is no element %d in a list of %d", i, len(v))
		}
		return v[i], nil
	case map[string]any:
		if key, ok := index.(string); ok {
			return v[key], nil
		}
	}
	return nil, failed(n.At, codeType, "%s has no index that is %s", described(v), described(index))
}

func (m *machine) in(n *syntax.Node, element, container any) (any, error) {
	switch container := container.(type) {
	case []any:
		for _, v := range container {
			if equal, err := m.equal(n.At, element, v); err != nil || equal {
				return equal, err
			}
		}
		return false, nil
	case map[string]any:
		key, ok := element.(string)
		if ok {
			_, ok = container[key]
		}
		return ok, nil
	}
	return nil, failed(n.At, codeType, "in takes a list or a map on its right, not %s", described(container))
}

func (m *machine) size(at int, v any) (any, error) {
	switch v := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), m.work(at, chunks(len(v)))
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, failed(at, codeType, "size takes a string, a list or a map, not %s", described(v))
}
