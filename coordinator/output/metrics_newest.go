package output

import (
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
)

// Bounds of the newest metrics of a job: what its program writes is its own, and is put together in the memory of a coordinator.
const (
	maxMetricNames = 10_000
	maxMetricBytes = 1 << 20
)

// newestMetrics is the newest value of each name that lines of metrics have. What is beyond the bounds is left out.
type newestMetrics struct {
	values map[string]json.RawMessage
	bytes  int
}

// take adds a line. One that is no JSON object was never a metric.
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
			// Nothing is better than a value that is not the newest.
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
	plain := make(map[string]any, len(n.values))
	for name, raw := range n.values {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		plain[name] = value
	}
	return structpb.NewStruct(plain)
}
