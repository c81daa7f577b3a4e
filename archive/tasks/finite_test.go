package tasks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFinite(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1e400,"b":[-1E999,2,1e308]}`: `{"a":null,"b":[null,2,1e308]}`, `{"1e400":"1e400 \" 1e400"}`: `{"1e400":"1e400 \" 1e400"}`, `1e400`: `null`, `{}`: `{}`,
		`{"n":99999999999999999999}`: `{"n":99999999999999999999}`,
	} {
		require.Equal(t, want, string(Finite([]byte(text))))
	}
}
