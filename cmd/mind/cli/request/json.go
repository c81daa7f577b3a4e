package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// asYAML returns JSON in a form that a reader of YAML takes, with the same meaning: YAML has no escape for a slash or for half of a
// character, takes some characters only as escapes, and has no tabs between values. Text that is not JSON stays as it is.
func asYAML(text []byte) []byte {
	var compact bytes.Buffer
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) || json.Compact(&compact, text) != nil {
		return text
	}
	in := compact.Bytes()
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		switch r, size := utf8.DecodeRune(in[i:]); {
		case strange(r) && size > 1 || r == 0x7f:
			out = fmt.Appendf(out, `\u%04x`, r)
			i += size - 1
		case in[i] != '\\':
			out = append(out, in[i])
		case in[i+1] == '/':
			i++
			out = append(out, '/')
		case in[i+1] == 'u' && i+12 <= len(in) && in[i+6] == '\\' && in[i+7] == 'u':
			if r := utf16.DecodeRune(unit(in[i+2:i+6]), unit(in[i+8:i+12])); r != utf8.RuneError {
				out = utf8.AppendRune(out, r)
				i += 11
				continue
			}
			fallthrough
		default:
			out = append(out, in[i], in[i+1])
			i++
		}
	}
	return out
}

// strange reports whether YAML takes a character only as an escape.
func strange(r rune) bool {
	return r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff
}

// unit reads four hexadecimal digits.
func unit(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 16)
	return rune(n)
}
