package shells

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPorts_areRead(t *testing.T) {
	for text, want := range map[string][2]string{"6006": {"6006", "6006"}, "8080:6006": {"8080", "6006"}, "0:6006": {"0", "6006"}} {
		local, port, err := ports(text)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{local, port})
	}
	for _, text := range []string{"", "x", "0", "1:0", "1:2:3", "-1:5", "70000", ":6006"} {
		_, _, err := ports(text)
		require.Error(t, err, text)
	}
}
