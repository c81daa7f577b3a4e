package stream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestAppendID_neverBreaksTheFrame(t *testing.T) {
	require.Equal(t, "", string(appendID(nil, "a\nevent: evil")))
	require.Equal(t, "id: 1:0=5\n", string(appendID(nil, "1:0=5")))
	frame := string(AppendLog(nil, &v1.LogEntry{Message: "a\r\n\ndata: evil\u2028"}))
	require.Equal(t, 3, strings.Count(frame, "\n"), frame)
	require.NotContains(t, frame, "\r")
}
