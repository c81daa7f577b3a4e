package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/tasks"
)

const (
	// maxResults limits the results of one task: each one is an entry of the cluster's log.
	maxResults = 1000
	// maxResultBytes limits the metrics of one result. The coordinators have the same limit.
	maxResultBytes = 16 << 10
	// maxResultError limits the error text of a result.
	maxResultError = 1024
)

// resultEvent is the result of a benchmark, as an evaluation writes it.
type resultEvent struct {
	Benchmark string          `json:"benchmark"`
	Metrics   json.RawMessage `json:"metrics"`
	Samples   float64         `json:"num_samples"`
	Error     string          `json:"error"`
}

// result makes a report from a line with a result.
func (w *Watcher) result(line []byte) (Finding, bool) {
	var e resultEvent
	if err := json.Unmarshal(line, &e); err != nil || e.Benchmark == "" {
		w.log.Warn("cannot read a result of an evaluation", "dir", w.dir, "error", err)
		return Finding{}, false
	}
	if w.results++; w.results > maxResults {
		if w.results == maxResults+1 {
			w.log.Warn("an evaluation reports too many results", "dir", w.dir, "taken", maxResults)
		}
		return Finding{}, false
	}
	report := &v1.EvaluationReport{Benchmark: e.Benchmark, Error: cut(e.Error, maxResultError)}
	if e.Samples > 0 {
		report.NumSamples = int32(min(e.Samples, math.MaxInt32))
	}
	metrics, why := figuresOf(e.Metrics)
	if report.MetricsJson = metrics; report.Error == "" {
		report.Error = why
	}
	return Finding{kept: true, Body: &v1.Report{Body: &v1.Report_Evaluation{Evaluation: report}}}, true
}

// figuresOf keeps the numbers among the metrics. null, as Python writes NaN in some libraries, is dropped; any other value
// is an error that the user should see.
func figuresOf(raw json.RawMessage) (text, why string) {
	var metrics map[string]*float64
	if len(raw) == 0 {
		return "", "the workload reported no metrics"
	}
	if err := json.Unmarshal(raw, &metrics); err != nil {
		return "", "the reported metrics are not a JSON object of numbers"
	}
	for name, value := range metrics {
		if value == nil {
			delete(metrics, name)
		}
	}
	if len(metrics) == 0 {
		return "", "the reported metrics contain no number"
	}
	plain, err := json.Marshal(metrics)
	if err != nil {
		return "", "cannot encode the reported metrics: " + err.Error()
	}
	if len(plain) > maxResultBytes {
		return "", fmt.Sprintf("the reported metrics have %d bytes; at most %d are kept", len(plain), maxResultBytes)
	}
	return string(plain), ""
}

// cut truncates a long text at a character boundary.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}

// plainEvent returns a line of the events file as standard JSON: Python also writes NaN.
func plainEvent(line []byte) []byte {
	if json.Valid(line) && utf8.Valid(line) {
		return tasks.Finite(line)
	}
	return tasks.PlainJSON(line)
}
