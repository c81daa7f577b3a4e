package output

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevelOf_aLineSaysItsOwnLevel(t *testing.T) {
	for line, want := range map[string]string{
		"2026-11-21 10:00:00 WARNING disk is slow": "WARNING",
		"[ERROR] out of memory":                    "ERROR",
		"INFO:root:step 1":                         "INFO",
		"an ERRORS counter":                        "INFO",
		"":                                         "INFO",
	} {
		require.Equal(t, want, levelOf(line, false), line)
	}
	require.Equal(t, "ERROR", levelOf("Traceback (most recent call last):", true))
	require.Equal(t, "INFO", levelOf("INFO on stderr", true))
}
