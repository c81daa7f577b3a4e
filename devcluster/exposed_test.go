package devcluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:1": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:8080": true, "localhost:8080": true,
		"0.0.0.0:8080": false, "[::]:8080": false, ":8080": false, "10.0.0.7:8080": false, "[fe80::1%lo]:8080": false,
		"no-such-host.invalid:8080": false, "8080": false,
	} {
		require.Equal(t, want, onLoopback(addr), addr)
	}
}
