package domains

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevels_areNamedByTheirLabels(t *testing.T) {
	require.Equal(t, "clique, leaf, spine, block", Names(Levels("")))
	levels := Levels("rack,net.example.com/pod")
	require.Equal(t, []Level{{"rack", "rack"}, {"net.example.com/pod", "pod"}}, levels)
	for _, name := range []string{"pod", "net.example.com/pod"} {
		l, ok := Find(levels, name)
		require.True(t, ok)
		require.Equal(t, "net.example.com/pod", l.Label)
	}
	_, ok := Find(levels, "leaf")
	require.False(t, ok)
}

func TestValidate_saysWhatIsWrong(t *testing.T) {
	for list, want := range map[string]string{
		"":                       "",
		Default:                  "",
		"a/leaf,b/leaf":          "both called leaf",
		"a,,b":                   "no label",
		"a/":                     "no label",
		"a b":                    "no label",
		"a,b,c,d,e,f,g,h,i":      "at most 8",
		strings.Repeat("x", 129): "no label",
	} {
		err := Validate(list)
		if want == "" {
			require.NoError(t, err, list)
			continue
		}
		require.ErrorContains(t, err, want, list)
	}
}

func TestSplit_findsTheFirstBrokenSegment(t *testing.T) {
	for in, want := range map[string]int{"aaaa": -1, "aabb": 0, "aa b": 0, "    ": 0} {
		first, split := Split(4, 0, at(in))
		require.Equal(t, want >= 0, split, in)
		require.Equal(t, max(0, want), first, in)
	}
	for in, want := range map[string]int{"aaaa": -1, "aabb": -1, "aabc": 2, "abcc": 0, "aa b": 2} {
		first, split := Split(4, 2, at(in))
		require.Equal(t, want >= 0, split, in)
		require.Equal(t, max(0, want), first, in)
	}
}

func at(in string) func(int) string {
	return func(rank int) string { return strings.TrimSpace(in[rank : rank+1]) }
}

func TestExclude_matchesIDsAndPatterns(t *testing.T) {
	list, err := CanonicalExclude([]string{"n7,n1", " n1 ", "rack2-*"})
	require.NoError(t, err)
	require.Equal(t, "n1,n7,rack2-*", list)
	for node, want := range map[string]bool{"n1": true, "n7": true, "n11": false, "rack2-a": true, "rack1-a": false} {
		require.Equal(t, want, Excludes(list, node), node)
	}
	require.False(t, Excludes("", "n1"))
	for _, bad := range []string{"a[", "a/b"} {
		_, err := CanonicalExclude([]string{bad})
		require.Error(t, err, bad)
	}
	_, err = CanonicalExclude([]string{strings.Repeat("x", MaxExclude+1)})
	require.ErrorContains(t, err, "use patterns")
}

func TestParse_isTheInverseOfString(t *testing.T) {
	for b := Same; b.Valid(); b++ {
		got, ok := Parse(b.String())
		require.True(t, ok)
		require.Equal(t, b, got)
	}
	_, ok := Parse("")
	require.False(t, ok)
	require.Equal(t, "unknown", Between(9).String())
}
