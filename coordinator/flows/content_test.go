package flows

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/flows"
)

// Contents that are equal as JSON are equal, whatever their id and version say, and every reader gets those of the flow.
func TestPack_isCanonical(t *testing.T) {
	one, named, err := pack(`{"version":"2.0.0","id":"x","b":[1.50,12345678901234567890],"a":"<&>"}`)
	require.NoError(t, err)
	require.Equal(t, "2.0.0", named)
	other, named, err := pack("{\n\"a\" : \"\\u003c&>\", \"b\": [ 1.50, 12345678901234567890 ], \"version\": 7}")
	require.NoError(t, err)
	require.Empty(t, named)
	require.Equal(t, one.Digest, other.Digest)
	text, err := unpack(&flows.Version{Flow: 32, Name: "2.0.0", Content: one})
	require.NoError(t, err)
	require.Equal(t, `{"id":"flow_10","version":"2.0.0","a":"<&>","b":[1.50,12345678901234567890]}`, text)
	changed, _, err := pack(`{"a":"<&>","b":[1.5,12345678901234567890]}`)
	require.NoError(t, err)
	require.NotEqual(t, one.Digest, changed.Digest)
	empty, _, err := pack(`{"id":"x"}`)
	require.NoError(t, err)
	text, err = unpack(&flows.Version{Flow: 32, Name: "0.1.0", Content: empty})
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"flow_10","version":"0.1.0"}`, text)
}

func TestPack_refuses(t *testing.T) {
	for text, says := range map[string]string{
		`[]`: "is no JSON object", `null`: "must be one JSON object", `{} {}`: "must be one JSON object", `{`: "is no JSON object", ``: "is no JSON object",
		`{"a":"` + strings.Repeat("x", flows.MaxContent) + `"}`: "has 524296 bytes, and at most 524288 are stored",
	} {
		_, _, err := pack(text)
		require.ErrorContains(t, err, says)
	}
}

// A content of the full size that cannot be compressed is within the bound of the state.
func TestPack_noiseFits(t *testing.T) {
	noise := make([]byte, flows.MaxContent-len(`{"a":""}`))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rng.IntN(64)]
	}
	content, _, err := pack(`{"a":"` + string(noise) + `"}`)
	require.NoError(t, err)
	require.EqualValues(t, flows.MaxContent, content.Size)
	require.LessOrEqual(t, len(content.Packed), flows.MaxStored)
	random := make([]byte, flows.MaxContent)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	packed, err := compress(random)
	require.NoError(t, err)
	require.LessOrEqual(t, len(packed), flows.MaxStored, "the worst case")
}

func TestFirstVersion(t *testing.T) {
	for named, want := range map[string]string{"": "0.1.0", "1.2.3": "1.2.3", "1.2.3-beta.1+x": "1.2.3", "v1.0.0": "0.1.0", "1.2": "0.1.0", "9999999.0.0": "0.1.0"} {
		require.Equal(t, want, firstVersion(named))
	}
}
