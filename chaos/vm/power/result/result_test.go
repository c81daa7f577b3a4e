package result

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResult_saysWhatIsBroken(t *testing.T) {
	v := New()
	for i, figure := range Figures {
		v.Count(figure, i)
		v.Count(figure, 1)
	}
	require.Regexp(t, "^cuts=1 acknowledged=2 .* ready_p50_ms=22 missing=0 changed=0 went_back=0 doubled=0 torn=0 wrong_end=0 double_live=0 dead=0$", v.String())
	for range maxTold + 3 {
		v.Break(Torn, "page %d", 1)
	}
	require.Equal(t, maxTold+3, v.Broken())
	require.Contains(t, v.String(), " torn=23 ")
	var b strings.Builder
	v.Tell(&b)
	require.Contains(t, b.String(), "BROKEN  every file is whole: 23 times\n        page 1\n")
	require.Contains(t, b.String(), "and 3 more\n")
}
