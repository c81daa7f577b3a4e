package words

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/reason"
)

func TestMeaningOf_everyCode(t *testing.T) {
	for _, c := range reason.Codes() {
		m := MeaningOf(c)
		kinds, _ := c.Kinds()
		require.Equal(t, c.String(), m.Code)
		require.Len(t, m.Parameters, len(kinds), m.Code)
		require.NotContains(t, m.Parameters, "", "%s: a kind without a name", m.Code)
		require.NotEmpty(t, m.About, m.Code)
		require.NotEmpty(t, m.Sentence, m.Code)
		if !m.Example {
			for _, place := range places.FindAllString(m.Sentence, -1) {
				require.Regexp(t, `^\{\d\}$`, place, m.Code)
			}
		}
		require.NotRegexp(t, regexp.MustCompile(`\.$`), m.Remedy, "%s: the page puts the full stop", m.Code)
		require.Equal(t, []Meaning{m}, Find(m.Code))
	}
	source, err := os.ReadFile("../../fsm/reason/codes.go")
	require.NoError(t, err)
	var declared, described []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) Code = iota`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, m[1])
	}
	for _, b := range blocks {
		described = append(described, b.first.String())
	}
	require.Equal(t, declared, described, "say of each block of codes what it explains")
	for c := range remedies {
		_, known := c.Kinds()
		require.True(t, known)
	}
}

func TestMeaningOf_says(t *testing.T) {
	require.Equal(t, Meaning{
		Code: "QueueInUse", Number: int(reason.QueueInUse), About: "why a request about a node, a queue, a quota, a token, a launcher or a coordinator is refused",
		Sentence: `the queue "{0}" has unfinished jobs: cancel them, or wait until they finish`, Parameters: []string{"a text"},
	}, MeaningOf(reason.QueueInUse))
	require.Equal(t, "{0} of {1} coordinators call it dead", MeaningOf(reason.CalledDead).Sentence)
	m := MeaningOf(reason.Demand)
	require.True(t, m.Example)
	require.Len(t, m.Parameters, 9)
	require.Empty(t, Find("x"), "one letter is in nearly every sentence")
}
