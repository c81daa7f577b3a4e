package tasks

import (
	"bytes"
	"strconv"
)

// Finite returns a valid JSON text with null for each number that no double holds, such as 1e400.
func Finite(text []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		case c == '-' || c >= '0' && c <= '9':
			from := i
			for i < len(text) && bytes.IndexByte([]byte("+-.eE0123456789"), text[i]) >= 0 {
				i++
			}
			if _, err := strconv.ParseFloat(string(text[from:i]), 64); err != nil {
				out = append(append(out, text[done:from]...), "null"...)
				done = i
			}
		default:
			i++
		}
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}
