package taskservice

import (
	"fmt"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// maxReadBytes bounds what is read of the file at a time.
const maxReadBytes = 4 << 20

// metricsReader reads the lines of a metrics file with their offsets.
type metricsReader struct {
	tail taskfile.Tail
	// refused: it was said that the file is not read.
	refused bool
}

func newMetricsReader(dir string, most, offset int64) *metricsReader {
	return &metricsReader{tail: taskfile.Tail{Dir: dir, Name: shim.MetricsFile, Most: most, Offset: offset}}
}

// next returns the next lines, as much as one message may hold. None, and more, says that there may be some when it is called again.
func (r *metricsReader) next() (entries []*v1.TaskMetricsEntry, more bool) {
	size := 0
	more, err := r.tail.Look(maxReadBytes, func(line taskfile.Line) bool {
		text := tasks.MetricsText(line.Text, line.Long)
		entries = append(entries, &v1.TaskMetricsEntry{Offset: uint64(line.End), Json: text, UnixNanos: r.tail.Changed})
		size += len(text)
		return len(entries) < maxEntries && size < maxEntryBytes
	})
	if err != nil && !r.refused {
		// Its readers should know why they see nothing; it may become a file again.
		r.refused = true
		entries = append(entries, &v1.TaskMetricsEntry{Offset: uint64(r.tail.Offset), Json: fmt.Sprintf("mind: the metrics of the task are not read: %v", taskfile.Cause(err))})
	}
	if r.tail.Full() && r.tail.Offset <= r.tail.Most {
		r.tail.Offset = r.tail.Most + 1 // said once, also to who comes again with this offset
		entries = append(entries, &v1.TaskMetricsEntry{Offset: uint64(r.tail.Offset), Json: tasks.MetricsLimit(r.tail.Most), UnixNanos: r.tail.Changed})
	}
	return entries, more
}
