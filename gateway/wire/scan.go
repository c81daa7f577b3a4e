package wire

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// These functions walk a text that is known to be valid JSON. They do not check for faults, and must not be used on
// anything else.

func (d *decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// members calls read at the value of each member of the object that starts here.
func (d *decoder) members(read func(name string)) {
	d.at++ // {
	for {
		d.space()
		switch d.text[d.at] {
		case '}':
			d.at++
			return
		case ',':
			d.at++
			continue
		}
		name := d.string()
		d.space()
		d.at++ // :
		d.space()
		read(name)
	}
}

// elements calls read at each element of the list that starts here.
func (d *decoder) elements(read func(i int)) {
	d.at++ // [
	for i := 0; ; {
		d.space()
		switch d.text[d.at] {
		case ']':
			d.at++
			return
		case ',':
			d.at++
			continue
		}
		read(i)
		i++
	}
}

// string reads the string that starts here.
func (d *decoder) string() string {
	start := d.at
	plain := true
	for i := start + 1; ; i++ {
		switch c := d.text[i]; {
		case c == '"':
			d.at = i + 1
			raw := d.text[start+1 : i]
			if plain || (!strings.Contains(raw, `\`) && utf8.ValidString(raw)) {
				return raw
			}
			var s string
			// It is valid JSON; half of a surrogate pair becomes U+FFFD.
			_ = json.Unmarshal([]byte(d.text[start:d.at]), &s)
			return s
		case c == '\\':
			plain = false
			i++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
}

// literal reads the number, true, false or null that starts here.
func (d *decoder) literal() string {
	start := d.at
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return d.text[start:d.at]
		}
		d.at++
	}
	return d.text[start:]
}

// skip skips the value that starts here and returns its kind.
func (d *decoder) skip() string {
	switch d.text[d.at] {
	case '"':
		d.string()
		return "a string"
	case '{', '[':
		kind := "an object"
		if d.text[d.at] == '[' {
			kind = "a list"
		}
		depth := 0
		for {
			switch d.text[d.at] {
			case '"':
				d.string()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			d.at++
			if depth == 0 {
				return kind
			}
		}
	case 't', 'f':
		d.literal()
		return "true or false"
	case 'n':
		d.literal()
		return "null"
	}
	d.literal()
	return "a number"
}
