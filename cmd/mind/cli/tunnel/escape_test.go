package tunnel

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestEscape_leavesAtTheBeginningOfALine(t *testing.T) {
	for typed, want := range map[string]struct {
		sent string
		left bool
	}{
		"~.":            {"", true},
		"ls\r~.more":    {"ls\r", true},
		"ls\n~.":        {"ls\n", true},
		"ls ~.\r":       {"ls ~.\r", false},
		"~~.\r":         {"~.\r", false},
		"~/bin/x\r~\r.": {"~/bin/x\r~\r.", false},
		"a\r~~":         {"a\r~", false},
		"":              {"", false},
	} {
		for _, from := range []io.Reader{strings.NewReader(typed), iotest.OneByteReader(strings.NewReader(typed))} {
			left := 0
			got, err := io.ReadAll(&Escape{From: from, Leave: func() { left++ }})
			require.NoError(t, err)
			require.Equal(t, want.sent, string(got), "%q", typed)
			require.Equal(t, want.left, left == 1, "%q", typed)
		}
	}
}
