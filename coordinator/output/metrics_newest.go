package output

import (
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// Limits of the newest metrics of a job: its program may write anything, and a coordinator merges them in memory.
const (
	maxMetricNames = 10_000
	maxMetricBytes = 1 << 20
)

// newestMetrics has the newest value of each name in lines of metrics. Values beyond the limits are dropped.
type newestMetrics struct {
	values map[string]json.RawMessage
	bytes  int
}

// take adds a line. A line that is not a JSON object has no metrics.
func (n *newestMetrics) take(line string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(line), &fields) != nil {
		return
	}
	if n.values == nil {
		n.values = map[string]json.RawMessage{}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if old, ok := n.values[name]; ok {
			// No value is better than one that is not the newest.
			n.bytes -= len(name) + len(old)
			delete(n.values, name)
		}
		size := len(name) + len(fields[name])
		if len(n.values) < maxMetricNames && n.bytes+size <= maxMetricBytes {
			n.values[name] = fields[name]
			n.bytes += size
		}
	}
}

func (n *newestMetrics) read() (*structpb.Struct, error) {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(n.values))}
	for name, raw := range n.values {
		value, err := numbers.Parse(tasks.Finite(raw))
		if err != nil {
			return nil, err
		}
		out.Fields[name] = value
	}
	return out, nil
}
