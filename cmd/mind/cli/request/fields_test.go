package request

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMebibytes(t *testing.T) {
	for text, want := range map[string]int{"64Gi": 65536, "512Mi": 512, "1Ti": 1 << 20, "2048": 2048, "1G": 953, "64GiB": 65536, "0.5Gi": 512, "0": 0} {
		got, err := Mebibytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "Gi", "-1Gi", "1Ki", "NaN", "9999999Ti", "1e30"} {
		_, err := Mebibytes(text)
		require.Error(t, err, text)
	}
}
