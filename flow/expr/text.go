package expr

import (
	"encoding/json"
	"fmt"
	"strings"
)

// text returns a string as it is, and any other value as JSON.
func (m *machine) text(at int, v any) (string, error) {
	if v, ok := v.(string); ok {
		return v, nil
	}
	if err := m.take(at, stringBytes); err != nil {
		return "", err
	}
	w := jsonWriter{machine: m, at: at}
	w.value(v)
	return w.out.String(), w.err
}

// jsonWriter writes values as JSON, with the keys of maps sorted, until the budget is used up.
type jsonWriter struct {
	machine *machine
	at      int
	out     strings.Builder
	err     error
}

func (w *jsonWriter) write(text string) {
	if w.err == nil {
		w.err = w.machine.take(w.at, int64(len(text)))
	}
	if w.err == nil {
		w.out.WriteString(text)
	}
}

func (w *jsonWriter) value(v any) {
	if w.err == nil {
		w.err = w.machine.work(w.at, 1)
	}
	if w.err != nil {
		return
	}
	switch v := v.(type) {
	case string:
		w.quoted(v)
	case []any:
		w.write("[")
		for i, element := range v {
			if i > 0 {
				w.write(",")
			}
			if w.value(element); w.err != nil {
				return
			}
		}
		w.write("]")
	case map[string]any:
		w.write("{")
		for i, key := range sortedKeys(v) {
			if i > 0 {
				w.write(",")
			}
			w.quoted(key)
			w.write(":")
			if w.value(v[key]); w.err != nil {
				return
			}
		}
		w.write("}")
	default:
		text, err := json.Marshal(v)
		if err != nil || Check(v) != nil {
			w.err = failed(w.at, codeType, "string takes a value, not %s", described(v))
		}
		w.write(string(text))
	}
}

// quoted writes a string with the fewest escapes, so that it stays readable within a text.
func (w *jsonWriter) quoted(text string) {
	if w.err == nil {
		w.err = w.machine.work(w.at, chunks(len(text)))
	}
	w.write(`"`)
	plain := 0
	for i := 0; i < len(text) && w.err == nil; i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' {
			w.write(text[plain:i])
			w.write(jsonEscape(c))
			plain = i + 1
		}
	}
	w.write(text[plain:])
	w.write(`"`)
}

func jsonEscape(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\t':
		return `\t`
	case '"', '\\':
		return `\` + string(c)
	}
	return fmt.Sprintf(`\u%04x`, c)
}
