package pki

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All certificates of a cluster are issued on one day and expire on one day, so each component warns before that day,
// and as long as its certificate is expired.
func TestExpiry_isSaidBeforeAndAfter(t *testing.T) {
	ca, dir := newCA(t)
	c1 := newComponent(t, issue(t, ca, dir, "c1", RoleCoordinator))
	end := c1.NotAfter()
	said := func(at time.Time) (lines int, last string) {
		c1.log.Reset()
		for range 100 { // many handshakes, one warning
			c1.clock = at
			at = at.Add(2 * lookPace)
			c1.NotAfter()
		}
		text := strings.TrimSpace(c1.log.String())
		if text == "" {
			return 0, ""
		}
		all := strings.Split(text, "\n")
		return len(all), all[len(all)-1]
	}
	n, _ := said(end.Add(-31 * 24 * time.Hour))
	require.Zero(t, n)
	for _, days := range []int{29, 28, 1} {
		n, line := said(end.Add(-time.Duration(days)*24*time.Hour - time.Hour))
		require.Equal(t, 1, n, line)
		require.Contains(t, line, "expires soon")
	}
	n, line := said(end.Add(time.Second))
	require.Equal(t, 1, n, line)
	require.Contains(t, line, "level=ERROR")
	require.Contains(t, line, "all peers reject it")
	n, _ = said(end.Add(time.Hour))
	require.Zero(t, n)
	n, _ = said(end.Add(25 * time.Hour))
	require.Equal(t, 1, n)

	renewed := issue(t, ca, t.TempDir(), "c1", RoleCoordinator)
	c1.install(t, renewed)
	c1.clock = end.Add(-300 * 24 * time.Hour)
	c1.log.Reset()
	require.Equal(t, certificate(t, renewed.Cert).NotAfter, c1.NotAfter(), "a look is enough to follow the files")
	require.NotContains(t, c1.log.String(), "certificate expires soon")
}
