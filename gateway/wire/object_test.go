package wire

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// An object passes as it is, with all digits of its numbers.
func TestObjects_passAsTheyAre(t *testing.T) {
	const text = `{"b": [1.50, 12345678901234567890], "a":{"c":null}}`
	request := &v1.CreateFlowRequest{}
	faults, _ := Decode([]byte(`{"name":"x","content":`+text+`}`), request)
	require.Empty(t, faults)
	require.Equal(t, text, request.GetContent())
	require.Contains(t, string(Append(nil, request, true)), text)
	require.Contains(t, string(Append(nil, &v1.CreateFlowRequest{}, false)), `"content":null`)
	for body, says := range map[string]string{
		`{"content":"{}"}`: "must be an object, not a string", `{"content":[]}`: "must be an object, not a list", `{"content":7}`: "must be an object, not a number",
	} {
		faults, _ := Decode([]byte(body), &v1.CreateFlowRequest{})
		require.Equal(t, []Fault{{"content", says}}, faults, protojson.Format(request))
	}
}

// Credentials are hidden wherever a string has them, and the object stays one.
func TestObjects_hideCredentials(t *testing.T) {
	const text = `{"u":"https://ann:pw@host/?sig=abc\"","\\":"\\","n":"see \u0068ttps://ann:pw@host","e":"no \u0022 :// here"}`
	shown := Append(nil, &v1.CreateFlowRequest{Content: text}, true)
	var out struct{ Content map[string]string }
	require.NoError(t, json.Unmarshal(shown, &out), string(shown))
	require.Equal(t, map[string]string{
		"u": `https://***@host/?sig=***"`, `\`: `\`, "n": "see https://***@host", "e": `no " :// here`,
	}, out.Content)
}

// A name given twice is refused at any depth, as it is in fields with a schema.
func TestObjects_refuseNamesGivenTwice(t *testing.T) {
	for content, ok := range map[string]bool{
		`{"a":1,"b":{"a":2},"c":[{"a":1},{"a":1}]}`: true, `{}`: true, `{"a":1,"a":1}`: false, `{"x":[0,{"b":{"a":1,"\u0061":2}}]}`: false,
	} {
		faults, _ := Decode([]byte(`{"content":`+content+`,"name":"n"}`), &v1.CreateFlowRequest{})
		invoke := &v1.InvokeCoreRequest{}
		more, _ := Decode([]byte(`{"input":`+content+`,"flow":"n"}`), invoke)
		if ok {
			require.Empty(t, faults, content)
			require.Empty(t, more, content)
			require.Equal(t, "n", invoke.GetFlow())
			continue
		}
		require.Equal(t, []Fault{{"content", `has "a" twice in one object`}}, faults)
		require.Equal(t, []Fault{{"input", `has "a" twice in one object`}}, more)
	}
}

func TestDecode_refusesHalfOfASurrogatePair(t *testing.T) {
	for text, ok := range map[string]bool{
		`\ud83d\ude00`: true, `\\ud800`: true, `\\\ud800`: false, `\ud800`: false, `\udc00`: false, `\ud800\ud800`: false, `\ud800x`: false, `\ud800\u0041`: false,
		`\ud800\n`: false, `\uD7FF\uE000`: true, `é\u00e9`: true,
	} {
		faults, _ := Decode([]byte(`{"name":"`+text+`"}`), &v1.CreateFlowRequest{})
		require.Equal(t, ok, len(faults) == 0, "%s: %v", text, faults)
	}
}
