package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidGateWord(t *testing.T) {
	for _, good := range []string{"gate", "warm-up", "a.b_C9", strings.Repeat("x", MaxGateWord)} {
		require.True(t, ValidGateWord(good), good)
	}
	for _, bad := range []string{"", "a b", "a;b", "é", "`x`", "a\n", strings.Repeat("x", MaxGateWord+1)} {
		require.False(t, ValidGateWord(bad), bad)
	}
}
