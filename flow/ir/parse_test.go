package ir

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "2w": 336 * time.Hour, "1w2d3h": 219 * time.Hour, "366d": MaxDuration, " 5m ": 5 * time.Minute,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	// The weeks are those that 64 bits of nanoseconds hold three days of.
	for _, text := range []string{"", "d", "soon", "-5s", "1.5d", "367d", "53w", "30501w", "65535w", "52w2562047h", "1h2d", "5 m", "99999999999d"} {
		_, err := ParseDuration(text)
		require.Error(t, err, text)
	}
}

func parseBody(body string) (*Module, error) {
	return Parse([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":` + body + `}]}`))
}

func TestParse_refusesWhatItWouldForget(t *testing.T) {
	for body, says := range map[string]string{
		`[{"kind":"compute","id":"j","retry":{"maximum":3}}]`:                                                             `block "j": unknown field "maximum"`,
		`[{"kind":"if","id":"i","cases":[{"if":"true","body":[]}]}]`:                                                      `block "i": unknown field "if"`,
		`[{"kind":"if","id":"i","cases":[{"when":"true","body":[{"kind":"try","id":"t","on_failure":[{"code":"X"}]}]}]}]`: `block "t": unknown field "code"`,
		`[{"kind":"rigid","id":"r","statements":[{"kind":"assign","vlaue":"1"}]}]`:                                        `block "r": unknown field "vlaue"`,
		`[{"kind":"checkpoint","id":"q","options":[{"id":"yes","text":"Yes"}]}]`:                                          `block "q": unknown field "text"`,
		`[{"kind":"wait","id":"w","duration":"1s","duration":"2s"}]`:                                                      `the field "duration" is given twice in one object, before byte 117`,
	} {
		_, err := parseBody(body)
		require.ErrorContains(t, err, says, body)
	}
}

// Reading a block reads the blocks in it more than once, so a deep program would take minutes.
func TestParse_boundsTheDepth(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`[{"kind":"if","id":"i","else":`, depth) + "[]" + strings.Repeat("}]", depth)
	}
	_, err := parseBody(nested(3000))
	require.ErrorContains(t, err, "it is nested more than 256 deep")
	_, err = parseBody(strings.Repeat("[", 100_000))
	require.ErrorContains(t, err, "it is nested more than 256 deep")
	_, err = parseBody(nested(100))
	require.NoError(t, err)
}

// An empty catch catches, and no catch does not: the form that Mind writes has to tell them apart.
func TestEncode_keepsAnEmptyCatch(t *testing.T) {
	for _, catch := range []string{"", `,"catch":[]`} {
		m, err := parseBody(`[{"kind":"try","id":"t","body":[{"kind":"debug","id":"d"}]` + catch + `,"finally":[]}]`)
		require.NoError(t, err)
		data, err := m.Encode()
		require.NoError(t, err)
		again, err := Parse(data)
		require.NoError(t, err)
		require.Equal(t, catch != "", again.Flows[0].Body[0].Catch != nil)
	}
}

// Numbers that a float64 cannot hold stay what they are.
func TestParse_keepsLargeIntegers(t *testing.T) {
	const large = 1<<53 + 1
	m, err := Parse([]byte(fmt.Sprintf(`{"schema_version":"0.1","name":"p","variables":[{"name":"v","default":%d}],"flows":[{"name":"main","body":[
		{"kind":"match","id":"m","subject":"v","arms":[{"values":[%d, 1.5, "x", null],"body":[]}]}]}]}`, large, large)))
	require.NoError(t, err)
	require.Equal(t, int64(large), m.Variables[0].Default)
	require.Equal(t, []any{int64(large), 1.5, "x", nil}, m.Flows[0].Body[0].Arms[0].Values)
}

func TestStatement_remembersStrangeFields(t *testing.T) {
	m, err := parseBody(`[{"kind":"rigid","id":"r","statements":[{"kind":"return","expression":"1","message":"x"},{"kind":"sing","value":"1"},{"kind":"http_call","url":"x"}]}]`)
	require.NoError(t, err)
	s := m.Flows[0].Body[0].Statements
	require.Equal(t, []string{"expression", "message"}, s[0].Strange())
	require.Empty(t, s[1].Strange())
	require.Empty(t, s[2].Strange())
}
