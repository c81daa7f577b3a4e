package expr

import "unicode/utf8"

// lengthField is a field that strings, lists and maps without such a key have.
const lengthField = "length"

func (m *machine) list(n *node) (any, error) {
	if err := m.takeList(n.at, int64(len(n.args))); err != nil {
		return nil, err
	}
	out := make([]any, len(n.args))
	for i, arg := range n.args {
		var err error
		if out[i], err = m.eval(arg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m *machine) object(n *node) (any, error) {
	m.built = true
	if err := m.take(n.at, mapBytes+entryBytes*int64(len(n.args)/2)); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(n.args)/2)
	for i := 0; i < len(n.args); i += 2 {
		k, err := m.eval(n.args[i])
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, failed(n.args[i].at, codeType, "the key of a map has to be a string, not %s", described(k))
		}
		if _, twice := out[key]; twice {
			return nil, failed(n.args[i].at, codeRange, "the key %s is twice in the map", shortened(key))
		}
		if out[key], err = m.eval(n.args[i+1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// selected returns a field of a map, or null where there is none.
func (m *machine) selected(n *node, v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		field, ok := v[n.name]
		if !ok && n.name == lengthField {
			return int64(len(v)), nil
		}
		return field, nil
	case string, []any:
		if n.name == lengthField {
			return m.size(n.at, v)
		}
	}
	return nil, failed(n.at, codeType, "%s has no field %s", described(v), n.name)
}

func has(n *node, v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case map[string]any:
		_, ok := v[n.name]
		return ok, nil
	}
	return nil, failed(n.at, codeType, "has takes a field of a map, not of %s", described(v))
}

func indexed(n *node, v, index any) (any, error) {
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
			return nil, failed(n.at, codeIndex, "there is no element %d in a list of %d", i, len(v))
		}
		return v[i], nil
	case map[string]any:
		if key, ok := index.(string); ok {
			return v[key], nil
		}
	}
	return nil, failed(n.at, codeType, "%s has no index that is %s", described(v), described(index))
}

func (m *machine) in(n *node, element, container any) (any, error) {
	switch container := container.(type) {
	case []any:
		for _, v := range container {
			if equal, err := m.equal(n.at, element, v); err != nil || equal {
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
	return nil, failed(n.at, codeType, "in takes a list or a map on its right, not %s", described(container))
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
