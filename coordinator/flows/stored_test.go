package flows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/flows"
)

func TestKeys_areThePublishedOnes(t *testing.T) {
	require.Equal(t, "flows/acme/flow_1/v0.1.0.flow.json", keyOfContent("acme", 1, "0.1.0"))
	seen := map[string]string{}
	for _, tenant := range []string{"acme", "ACME", "a/b", "a b", "..", "", "_x", "_3973e022e93220f9212c18d0d0c543ae", "é"} {
		folder := folderOf(tenant)
		require.Regexp(t, `^[A-Za-z0-9_][A-Za-z0-9._-]*$`, folder)
		require.Emptyf(t, seen[folder], "%q and %q share %s", tenant, seen[folder], folder)
		seen[folder] = tenant + "!"
	}
}

func TestChecked_knowsItsContent(t *testing.T) {
	for _, text := range []string{`{"a":1}`, `{}`} {
		content, _, err := pack(text)
		require.NoError(t, err)
		v := &flows.Version{Flow: 1, Number: 1, Name: "0.1.0", Content: content}
		shown, err := unpack(v)
		require.NoError(t, err)
		require.NoError(t, checked(v, []byte(shown)))
		for _, other := range []string{"", "{}", shown + " ", shown[:len(shown)-1], `{"id":"flow_2","version":"0.1.0"` + shown[30:]} {
			if other != shown {
				require.Error(t, checked(v, []byte(other)), other)
			}
		}
	}
}
