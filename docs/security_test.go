package docs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each threat must name tests, because a protection without a test is not checked. Another test checks that the tests
// that pages name exist.
func TestSecurity_everyThreatNamesTests(t *testing.T) {
	_, threats, found := strings.Cut(read(t, "operate/security.md"), "\n## Threats\n")
	require.True(t, found, "the list of threats is gone")
	threats, _, _ = strings.Cut(threats, "\n## ")
	items := strings.Split(threats, "\n- ")[1:]
	for _, item := range items {
		_, tests, found := strings.Cut(item, "Tests:")
		require.Truef(t, found && namedTest.MatchString(tests), "no test: %s", item)
		tests, _, _ = strings.Cut(tests, "\n\n")
		require.Equalf(t, strings.Count(tests, "`")/2, len(namedTest.FindAllString(tests, -1)), "not of the form `folder TestName`: %s", item)
	}
	require.Greater(t, len(items), 70)
}
