package render

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsTerminal_devNullIsNone(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.False(t, IsTerminal(null), "`mind top >/dev/null` must end")
	require.False(t, IsTerminal(&bytes.Buffer{}))
}
