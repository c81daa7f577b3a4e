package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// reportError appends an error event as a training does.
func reportError(kind, message string) string {
	return `echo '{"event":"error","error_type":"` + kind + `","message":"` + message + `","rank":2}' >> "$MIND_EVENTS_FILE"; `
}

func TestATaskSaysWhyItFails(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	for name, tt := range map[string]struct {
		script string
		kind   v1.ErrorType_Value
		says   string
	}{
		"its first error": {
			reportError("DATA_FORMAT", "train.jsonl:7 has no column text") + reportError("CONFIG", "later") + "exit 1",
			v1.ErrorType_DATA_FORMAT, "train.jsonl:7 has no column text (rank 2)",
		},
		"better than stderr": {
			reportError("OOM", "batch size 4 would fit") + "echo 'torch.OutOfMemoryError: CUDA out of memory' >&2; exit 1",
			v1.ErrorType_OOM, "batch size 4 would fit (rank 2)",
		},
		"what it cannot know":  {reportError("NODE_LOST", "m") + "exit 3", v1.ErrorType_EXIT_NONZERO, "NODE_LOST: m (rank 2)"},
		"and a success is one": {reportError("CONFIG", "m") + "exit 0", v1.ErrorType_UNSPECIFIED, ""},
		"nothing":              {"echo gone >&2; exit 1", v1.ErrorType_EXIT_NONZERO, "exited with code 1; last line of stderr: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			o := order("sh", "-c", tt.script)
			l.want(o)
			end := l.ended(o.GetTask())
			require.Equal(t, tt.kind, end.GetErrorType())
			require.Equal(t, tt.says, end.GetErrorMessage())
		})
	}
}

// The next agent finds the end of a task, and the error that the program reported.
func TestATaskThatFailedWhileItsAgentWasDownSaysWhy(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	stop := inProcess(t, cfg)
	o := order("sh", "-c", "sleep 1; "+reportError("DIVERGED", "the loss is NaN")+"exit 1")
	l.want(o)
	l.running(o.GetTask())
	stop()
	inProcess(t, cfg)
	end := l.ended(o.GetTask())
	require.Equal(t, v1.ErrorType_DIVERGED, end.GetErrorType())
	require.Equal(t, "the loss is NaN (rank 2)", end.GetErrorMessage())
}
