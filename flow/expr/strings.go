package expr

import (
	"strings"
	"unicode/utf8"
)

// ofStrings makes a function of one that takes strings only.
func ofStrings(name string, call func(m *machine, at int, args []string) (any, error)) func(*machine, int, []any) (any, error) {
	return func(m *machine, at int, args []any) (any, error) {
		texts := make([]string, len(args))
		length := 0
		for i, arg := range args {
			text, ok := arg.(string)
			if !ok {
				return nil, failed(at, codeType, "%s takes strings, not %s", name, described(arg))
			}
			texts[i] = text
			length += len(text)
		}
		if err := m.work(at, chunks(length)); err != nil {
			return nil, err
		}
		return call(m, at, texts)
	}
}

func contains(_ *machine, _ int, args []string) (any, error) {
	return strings.Contains(args[0], args[1]), nil
}

func startsWith(_ *machine, _ int, args []string) (any, error) {
	return strings.HasPrefix(args[0], args[1]), nil
}

func endsWith(_ *machine, _ int, args []string) (any, error) {
	return strings.HasSuffix(args[0], args[1]), nil
}

func indexOf(_ *machine, _ int, args []string) (any, error) {
	i := strings.Index(args[0], args[1])
	if i < 0 {
		return int64(-1), nil
	}
	return int64(utf8.RuneCountInString(args[0][:i])), nil
}

// cased makes lower and upper. The other case of a character may have more bytes, but less than twice as many.
func cased(change func(string) string) func(m *machine, at int, args []string) (any, error) {
	return func(m *machine, at int, args []string) (any, error) {
		if err := m.takeString(at, 2*len(args[0])); err != nil {
			return nil, err
		}
		return change(args[0]), nil
	}
}

func trim(m *machine, at int, args []string) (any, error) {
	return strings.TrimSpace(args[0]), m.take(at, stringBytes)
}

func split(m *machine, at int, args []string) (any, error) {
	text, separator := args[0], args[1]
	parts := strings.Count(text, separator) + 1
	if separator == "" {
		parts -= 2 // Count counts the begin and the end, too
	}
	if err := m.takeList(at, int64(parts)); err != nil {
		return nil, err
	}
	out := make([]any, 0, parts)
	if separator == "" {
		for i, r := range text {
			out = append(out, text[i:i+utf8.RuneLen(r)])
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, separator) {
		out = append(out, part)
	}
	return out, nil
}

func replace(m *machine, at int, args []string) (any, error) {
	text, old, with := args[0], args[1], args[2]
	count := strings.Count(text, old)
	if err := m.work(at, int64(count)); err != nil {
		return nil, err
	}
	// A factor is at most the length of a string in memory, so the product is far from an overflow of 64 bits.
	if err := m.takeString(at, len(text)+count*(len(with)-len(old))); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(text, old, with), nil
}

func join(m *machine, at int, args []any) (any, error) {
	list, ok := args[0].([]any)
	separator, alsoOK := "", true
	if len(args) == 2 {
		separator, alsoOK = args[1].(string)
	}
	if !ok || !alsoOK {
		return nil, failed(at, codeType, "join takes a list and a string, not %s and %s", described(args[0]), described(args[len(args)-1]))
	}
	if err := m.work(at, int64(len(list))); err != nil {
		return nil, err
	}
	length := len(separator) * max(len(list)-1, 0)
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, failed(at, codeType, "join takes a list of strings, but %s is in it", described(v))
		}
		length += len(text)
	}
	if err := m.takeString(at, length); err != nil {
		return nil, err
	}
	var out strings.Builder
	out.Grow(length)
	for i, v := range list {
		if i > 0 {
			out.WriteString(separator)
		}
		out.WriteString(v.(string))
	}
	return out.String(), nil
}

// substring returns the characters of a string from a first one up to, and without, a last one.
func substring(m *machine, at int, args []any) (any, error) {
	text, ok := args[0].(string)
	if !ok {
		return nil, failed(at, codeType, "substring takes a string, not %s", described(args[0]))
	}
	if err := m.work(at, chunks(len(text))); err != nil {
		return nil, err
	}
	length := int64(utf8.RuneCountInString(text))
	bounds := [2]int64{0, length}
	for i, arg := range args[1:] {
		if bounds[i], ok = wholeNumber(arg); !ok {
			return nil, failed(at, codeType, "substring takes ints as bounds, not %s", described(arg))
		}
	}
	begin, end := bounds[0], bounds[1]
	if begin < 0 || begin > end || end > length {
		return nil, failed(at, codeIndex, "there is no substring from %d to %d in a string of %d characters", begin, end, length)
	}
	if err := m.take(at, stringBytes); err != nil {
		return nil, err
	}
	from := byteOffset(text, begin)
	return text[from : from+byteOffset(text[from:], end-begin)], nil
}

// byteOffset returns where a text goes on after some characters.
func byteOffset(text string, characters int64) int {
	at := 0
	for ; characters > 0; characters-- {
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
	}
	return at
}
