package observe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

func TestReportedError(t *testing.T) {
	for name, tt := range map[string]struct{ events, kind, message string }{
		"the first counts": {
			`{"event":"phase","phase":"TRAINING"}` + "\n" + `{"event":"error","error_type":"OOM","message":"try batch size 4","rank":3}` + "\n" +
				`{"event":"error","error_type":"CONFIG","message":"later","rank":0}` + "\n",
			"OOM", "try batch size 4 (rank 3)",
		},
		"without a rank":              {`{"event":"error","error_type":"data_format","message":" a.jsonl:3 "}` + "\n", "DATA_FORMAT", "a.jsonl:3"},
		"a rank that is none":         {`{"event":"error","error_type":"DIVERGED","message":"m","rank":-1}` + "\n", "DIVERGED", "m"},
		"what a program cannot know":  {`{"event":"error","error_type":"GPU_FAULT","message":"m","rank":1}` + "\n", "", "GPU_FAULT: m (rank 1)"},
		"an unknown type":             {`{"event":"error","error_type":"Boom","message":"m"}` + "\n", "", "BOOM: m"},
		"without a type":              {`{"event":"error","message":"m"}` + "\n", "", "m"},
		"without a message":           {`{"event":"error","error_type":"CONFIG"}` + "\n", "CONFIG", "the program reported an error without a message"},
		"NaN beside it, as of Python": {`{"event":"error","error_type":"DIVERGED","message":"m","loss":NaN,"rank":0}` + "\n", "DIVERGED", "m (rank 0)"},
		"long":                        {`{"event":"error","error_type":"CONFIG","rank":7,"message":"` + strings.Repeat("x", 5000) + `"}` + "\n", "CONFIG", strings.Repeat("x", maxErrorText-len(" (rank 7)")) + " (rank 7)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, shim.EventsFile), []byte(tt.events), 0o600))
			kind, message, ok := ReportedError(dir, 0)
			require.True(t, ok)
			require.Equal(t, tt.kind, kind)
			require.Equal(t, tt.message, message)
		})
	}
	for name, events := range map[string]string{
		"nothing":             "",
		"another event":       `{"event":"progress","step":1,"error":"x"}` + "\n",
		"half a line":         `{"event":"error","message":"m"}`,
		"no JSON":             "\"error\" {\n",
		"beyond what is read": strings.Repeat("x\n", 100) + `{"event":"error","message":"m"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, shim.EventsFile), []byte(events), 0o600))
			_, _, ok := ReportedError(dir, 150)
			require.False(t, ok)
		})
	}
	_, _, ok := ReportedError(t.TempDir(), 0)
	require.False(t, ok, "no file")
}
