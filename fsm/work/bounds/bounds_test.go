package bounds

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	none, some, zero := int32(None), int32(7), int32(0)
	for name, tt := range map[string]struct {
		limit   *int32
		most    int
		bounded bool
	}{
		"not set": {nil, Submissions, true}, "none": {&none, -1, false}, "set": {&some, 7, true}, "nothing": {&zero, 0, true},
	} {
		most, bounded := Of(tt.limit, Submissions)
		require.Equal(t, tt.most, most, name)
		require.Equal(t, tt.bounded, bounded, name)
	}
}
