package request

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDecode_takesAllOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"\ud83d\ude80"}`:                "🚀",
		`{"a":"x\/y"}`:                        "x/y",
		`{"a":"\\/\\ud83d\\ude80"}`:           `\/\ud83d\ude80`,
		`{"a":"\u00e9\u4e2d\u0041"}`:          "é中A",
		`{"a":"\"\b\f\n\r\t\\"}`:              "\"\b\f\n\r\t\\",
		"{\n\t\"a\":\t\"tabs\"\n}":            "tabs",
		"a: \"yaml\\x41\"":                    "yamlA",
		"{\"a\": \"\\u0000\\ud83d\\ude80/\"}": "\x00🚀/",
	} {
		got, err := Decode("f", []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, Object{"a": want}, got, text)
	}
	_, err := Decode("f", []byte(`{"a":"\ud83d"}`))
	require.ErrorContains(t, err, "f is neither YAML nor JSON")
	_, err = Decode("f", []byte(`{"a":"\/","a":2}`))
	require.ErrorContains(t, err, "already defined")
}

func TestDecode_readsStringsAsJSONDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		text, err := json.Marshal(map[string]any{"a": want})
		require.NoError(t, err)
		var escaped strings.Builder
		for _, r := range string(text) {
			switch {
			case r > 0xffff && rapid.Bool().Draw(t, "escape"):
				hi, lo := rune(0xd800+(r-0x10000)>>10), rune(0xdc00+(r-0x10000)&0x3ff)
				escaped.WriteString(`\u` + hex(hi) + `\u` + hex(lo))
			case r == '/' && rapid.Bool().Draw(t, "slash"):
				escaped.WriteString(`\/`)
			default:
				escaped.WriteRune(r)
			}
		}
		got, err := Decode("f", []byte(escaped.String()))
		require.NoError(t, err)
		require.Equal(t, Object{"a": want}, got)
	})
}

func hex(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}
