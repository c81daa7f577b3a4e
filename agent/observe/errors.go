package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxErrorText limits the error message of a program. The coordinators have the same limit.
const maxErrorText = 1024

// reportable are the error types that a program may report itself. Only the agent and the coordinators set the others.
var reportable = map[string]bool{
	v1.ErrorType_OOM.String():             true,
	v1.ErrorType_MODEL_NOT_FOUND.String(): true,
	v1.ErrorType_DATA_FETCH.String():      true,
	v1.ErrorType_DATA_FORMAT.String():     true,
	v1.ErrorType_CONFIG.String():          true,
	v1.ErrorType_DIVERGED.String():        true,
}

// errorEvent is a program's own report of why it fails.
type errorEvent struct {
	Event   string   `json:"event"`
	Type    string   `json:"error_type"`
	Message string   `json:"message"`
	Rank    *float64 `json:"rank"`
}

// ReportedError returns the first error that the program of a task has reported; most limits how much of its events
// file is read, as in Config. The kind is empty if the program may not report it. If several processes fail one after
// another, the first error is the cause.
func ReportedError(dir string, most int64) (kind, message string, ok bool) {
	events := taskfile.Tail{Dir: dir, Name: shim.EventsFile, Most: most}
	for more := true; more && !ok; {
		var err error
		more, err = events.Look(maxLookBytes, func(line taskfile.Line) bool {
			kind, message, ok = errorOf(line)
			return !ok
		})
		if err != nil {
			break
		}
	}
	return kind, message, ok
}

func errorOf(line taskfile.Line) (kind, message string, ok bool) {
	if line.Long || !bytes.Contains(line.Text, []byte(`"error"`)) {
		return "", "", false
	}
	var e errorEvent
	text := plainEvent(line.Text)
	if text == nil || json.Unmarshal(text, &e) != nil || e.Event != "error" {
		return "", "", false
	}
	kind, message = strings.ToUpper(e.Type), strings.TrimSpace(e.Message)
	if message == "" {
		message = "the program reported an error without a message"
	}
	if !reportable[kind] {
		if kind != "" && kind != v1.ErrorType_EXIT_NONZERO.String() {
			message = cut(kind, 64) + ": " + message
		}
		kind = ""
	}
	rank := ""
	if e.Rank != nil && *e.Rank >= 0 && *e.Rank <= math.MaxUint16 {
		rank = fmt.Sprintf(" (rank %d)", int(*e.Rank))
	}
	return kind, cut(message, maxErrorText-len(rank)) + rank, true
}
