package flows

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	for tag, want := range map[string]string{`"0.1.3"`: "0.1.3", `W/"0.1.3"`: "0.1.3", "0.1.3": "0.1.3", "": "", "*": "*", ` "0.1.3" `: "0.1.3"} {
		require.Equal(t, want, versionOf(tag), tag)
	}
}
