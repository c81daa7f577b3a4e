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
