package hostlog

import (
	"bytes"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestLogger_isQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		b.Info("entering follower state")
		require.Empty(t, out.String())
		b = b.Named("net").With("peer", "c2")
		b.Error("failed to heartbeat", "servers", hclog.Fmt("%d of %d", 1, 3), "error", io.EOF)
		const want = `level=WARN msg="failed to heartbeat" peer=c2 servers="1 of 3" error=EOF` + "\n"
		require.Equal(t, want, out.String())
		b.Error("failed to heartbeat")
		require.Equal(t, want, out.String(), "said a moment ago")
		time.Sleep(repeatAfter)
		b.Error("failed to heartbeat")
		require.Greater(t, out.Len(), len(want))
		require.Equal(t, "net.x", b.Named("x").Name())
		require.False(t, b.IsDebug())
		require.True(t, b.IsWarn())
	})
}
