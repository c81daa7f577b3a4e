package taskservice

import (
	"fmt"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// maxReadBytes limits how much of a metrics file is read at a time.
const maxReadBytes = 4 << 20

// metricsReader reads the lines of a metrics file with their offsets.
type metricsReader struct {
	tail taskfile.Tail
	// refused: an entry has said that the file is not read.
	refused bool
}

func newMetricsReader(dir string, most, offset int64) *metricsReader {
	return &metricsReader{tail: taskfile.Tail{Dir: dir, Name: shim.MetricsFile, Most: most, Offset: offset}}
}

// next returns the next lines, at most as many as fit into one message. If it returns more and no entries, the next
// call may return some.
func (r *metricsReader) next() (entries []*v1.TaskMetricsEntry, more bool) {
	size := 0
	more, err := r.tail.Look(maxReadBytes, func(line taskfile.Line) bool {
		text := tasks.MetricsText(line.Text, line.Long)
		entries = append(entries, &v1.TaskMetricsEntry{Offset: uint64(line.End), Json: text, UnixNanos: r.tail.Changed})
		size += len(text)
		return len(entries) < maxEntries && size < maxEntryBytes
	})
	if err != nil && !r.refused {
		// Tell readers why they see no lines. The file may become valid again.
		r.refused = true
		entries = append(entries, &v1.TaskMetricsEntry{Offset: uint64(r.tail.Offset), Json: fmt.Sprintf("mind: the metrics of the task are not read: %v", taskfile.Cause(err))})
	}
	if r.tail.Full() && r.tail.Offset <= r.tail.Most {
		r.tail.Offset = r.tail.Most + 1 // the entry is sent once, also to a reader that resumes at this offset
		entries = append(entries, &v1.TaskMetricsEntry{Offset: uint64(r.tail.Offset), Json: tasks.MetricsLimit(r.tail.Most), UnixNanos: r.tail.Changed})
	}
	return entries, more
}
