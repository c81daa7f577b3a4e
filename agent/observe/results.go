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
	// maxResults bounds the results that are taken of one task; each is an entry of the log of the cluster.
	maxResults = 1000
	// maxResultBytes bounds the figures of one, as the coordinators do.
	maxResultBytes = 16 << 10
	// maxResultError bounds what a task says of why it has none.
	maxResultError = 1024
)

// resultEvent is what a benchmark came to, as an evaluation writes it down.
type resultEvent struct {
	Benchmark string          `json:"benchmark"`
	Metrics   json.RawMessage `json:"metrics"`
	Samples   float64         `json:"num_samples"`
	Error     string          `json:"error"`
}

// result makes a report of a line that tells of a benchmark.
func (w *Watcher) result(line []byte) (Finding, bool) {
	var e resultEvent
	if err := json.Unmarshal(line, &e); err != nil || e.Benchmark == "" {
		w.log.Warn("a result of an evaluation cannot be read", "dir", w.dir, "error", err)
		return Finding{}, false
	}
	if w.results++; w.results > maxResults {
		if w.results == maxResults+1 {
			w.log.Warn("an evaluation reports more results than are taken", "dir", w.dir, "taken", maxResults)
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

// figuresOf writes the numbers among the metrics anew. What is null, such as a NaN of Python's, is no number; anything else
// that is none is a mistake that somebody should hear of.
func figuresOf(raw json.RawMessage) (text, why string) {
	var metrics map[string]*float64
	if len(raw) == 0 {
		return "", "the workload reported no metrics"
	}
	if err := json.Unmarshal(raw, &metrics); err != nil {
		return "", "the metrics that were reported are no JSON object of numbers"
	}
	for name, value := range metrics {
		if value == nil {
			delete(metrics, name)
		}
	}
	if len(metrics) == 0 {
		return "", "no number is among the metrics that were reported"
	}
	plain, err := json.Marshal(metrics)
	if err != nil {
		return "", "the metrics that were reported cannot be written: " + err.Error()
	}
	if len(plain) > maxResultBytes {
		return "", fmt.Sprintf("the metrics that were reported take %d bytes; at most %d are kept", len(plain), maxResultBytes)
	}
	return string(plain), ""
}

// cut ends a text that is too long at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}

// plainEvent is a line of the events file as JSON that anybody can read: Python writes NaN, too.
func plainEvent(line []byte) []byte {
	if json.Valid(line) && utf8.Valid(line) {
		return line
	}
	return tasks.PlainJSON(line)
}
