package wire

import (
	"encoding/json"
	"strconv"
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
			// It is valid JSON, and no surrogate pair is half there.
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

// twice skips the value that starts here, and returns the first name that an object in it has more than once. Readers
// of such an object differ in which of the values they take.
func (d *decoder) twice() (name string, found bool) {
	inner := func() {
		if n, f := d.twice(); f && !found {
			name, found = n, true
		}
	}
	switch d.text[d.at] {
	case '{':
		seen := map[string]bool{}
		d.members(func(n string) {
			inner()
			if seen[n] && !found {
				name, found = n, true
			}
			seen[n] = true
		})
	case '[':
		d.elements(func(int) { inner() })
	default:
		d.skip()
	}
	return name, found
}

// halfPair reports whether a JSON text has an escaped half of a surrogate pair without the other half: no character, though
// the text is valid JSON.
func halfPair(text []byte) bool {
	high := false
	for i := 0; i < len(text); i++ {
		unit := -1
		if text[i] == '\\' && i+1 < len(text) {
			if i++; text[i] == 'u' && i+4 < len(text) {
				n, err := strconv.ParseUint(string(text[i+1:i+5]), 16, 16)
				if err == nil {
					unit = int(n)
				}
				i += 4
			}
		}
		low := unit >= 0xdc00 && unit <= 0xdfff
		if high != low {
			return true
		}
		high = unit >= 0xd800 && unit <= 0xdbff
	}
	return high
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
