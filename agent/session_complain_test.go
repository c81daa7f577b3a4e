package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// To the coordinators an agent without a session is a node that is silent: it has to say itself what keeps it out.
func TestSession_saysWhatKeepsItOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &session{agent: &agent{log: slog.New(slog.NewTextHandler(&log, nil))}, why: errors.New("c1:7001: tls: expired certificate")}
		try := func(d time.Duration) int {
			log.Reset()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				s.complain(false)
			}
			return strings.Count(log.String(), "level=WARN")
		}
		require.Zero(t, try(8*time.Second), "an election takes its time")
		require.Equal(t, 1, try(10*time.Second))
		require.Contains(t, log.String(), "expired certificate")
		require.Equal(t, 5, try(5*time.Minute))
		s.complain(true)
		require.Zero(t, try(8*time.Second), "it was in session meanwhile")
	})
}
