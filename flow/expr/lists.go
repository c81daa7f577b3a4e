package expr

import "math"

// listed makes a function that returns a list with an element for each key of a map, in the order of the keys.
func listed(name string, element func(entries map[string]any, key string) any) func(*machine, int, []any) (any, error) {
	return func(m *machine, at int, args []any) (any, error) {
		entries, ok := args[0].(map[string]any)
		if !ok {
			return nil, failed(at, codeType, "%s takes a map, not %s", name, described(args[0]))
		}
		// Twice, for the keys that are sorted.
		if err := m.takeList(at, int64(2*len(entries))); err != nil {
			return nil, err
		}
		out := make([]any, 0, len(entries))
		for _, key := range sortedKeys(entries) {
			out = append(out, element(entries, key))
		}
		return out, nil
	}
}

// rangeOf returns the ints from 0 or the first argument up to, and without, the last.
func rangeOf(m *machine, at int, args []any) (any, error) {
	bounds := make([]int64, 2)
	for i, arg := range args {
		var ok bool
		if bounds[2-len(args)+i], ok = wholeNumber(arg); !ok {
			return nil, failed(at, codeType, "range takes ints, not %s", described(arg))
		}
	}
	begin, end := bounds[0], bounds[1]
	if begin >= end {
		end = begin
	}
	// Unsigned, because the difference of two ints may be larger than an int. The longest length is beyond any memory.
	length := int64(min(uint64(end)-uint64(begin), math.MaxInt64/elementBytes-listBytes))
	if err := m.takeList(at, length); err != nil {
		return nil, err
	}
	out := make([]any, 0, end-begin)
	for i := begin; i < end; i++ {
		out = append(out, i)
	}
	return out, nil
}

// keysOf returns the keys of a map.
var keysOf = listed("keys", func(_ map[string]any, key string) any { return key })
