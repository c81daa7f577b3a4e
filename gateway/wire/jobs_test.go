package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A body of 8 MiB may contain four million jobs. The jobs beyond the limit are not kept in memory.
func TestDecodeBatch_keepsNothingOfWhatIsTooMuch(t *testing.T) {
	b, faults := DecodeBatch([]byte(`{"jobs":[1`+strings.Repeat(",1", 50_000)+`]}`), 1000)
	require.Equal(t, []Fault{{"jobs", "holds 50001 jobs; at most 1000 may be sent at once"}}, faults)
	require.Len(t, b.Items, 1000)
}
