package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestReportOf_aResultIsNumbersOrAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		report         *v1.EvaluationReport
		metrics, error string
	}{
		"figures":           {&v1.EvaluationReport{MetricsJson: `{"a":1e-3}`}, `{"a":1e-3}`, ""},
		"an error":          {&v1.EvaluationReport{Error: "no GPU"}, "", "no GPU"},
		"both":              {&v1.EvaluationReport{MetricsJson: `{"a":1}`, Error: "half of it"}, `{"a":1}`, "half of it"},
		"a word":            {&v1.EvaluationReport{MetricsJson: `{"a":"b"}`}, "", "not a JSON object of numbers"},
		"nothing":           {&v1.EvaluationReport{MetricsJson: `{"a":null}`}, "", "not a JSON object of numbers"},
		"no object":         {&v1.EvaluationReport{MetricsJson: `[1]`}, "", "not a JSON object of numbers"},
		"no JSON":           {&v1.EvaluationReport{MetricsJson: `{`, Error: "itself"}, "", "itself"},
		"more than is kept": {&v1.EvaluationReport{MetricsJson: `{"a":` + strings.Repeat(" ", 16<<10) + `1}`}, "", "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			c.report.Benchmark, c.report.NumSamples = "mmlu", -3
			out, ok := reportOf(&v1.Report{Task: &v1.TaskRef{JobId: "job_1"}, Body: &v1.Report_Evaluation{Evaluation: c.report}})
			require.True(t, ok)
			require.Equal(t, jobverbs.ReportEvaluation, out.Kind)
			require.Equal(t, "mmlu", out.Benchmark)
			require.Zero(t, out.Samples)
			require.Equal(t, c.metrics, out.Metrics)
			require.Contains(t, words.Of(out.ErrorMessage), c.error)
			require.Equal(t, c.error == "", out.ErrorMessage == "")
		})
	}
	out, ok := reportOf(&v1.Report{Task: &v1.TaskRef{JobId: "job_1"}, Body: &v1.Report_Evaluation{Evaluation: &v1.EvaluationReport{Benchmark: "a b"}}})
	require.True(t, ok)
	require.Empty(t, out.Benchmark, "the state refuses it")
}

func TestTransferText(t *testing.T) {
	const gib = 1 << 30
	for want, r := range map[string]*v1.TransferReport{
		"": {},
		"fetching s3://b/train.jsonl: 1.2 of 4.0 GiB, 35.0 MiB/s": {Path: "s3://b/train.jsonl", DoneBytes: 6 * gib / 5, TotalBytes: 4 * gib, BytesPerSecond: 35 << 20},
		"fetching https://h/x: 0.0 of 4.0 GiB":                    {Path: "https://h/x", TotalBytes: 4 * gib},
		"fetching https://h/x: 12 bytes so far, 6 bytes/s":        {Path: "https://h/x", DoneBytes: 12, BytesPerSecond: 6},
		"fetching https://h/x: 2.0 KiB so far":                    {Path: "https://h/x", DoneBytes: 2048},
		"fetching https://h/x: 0 of 5 bytes":                      {Path: "https://h/x", DoneBytes: -7, TotalBytes: 5, BytesPerSecond: -1},
		"waits its turn to fetch https://h/x":                     {Path: "https://h/x", TotalBytes: 4 * gib, Waiting: true},
	} {
		require.Equal(t, want, transferText(r))
	}
	long := transferText(&v1.TransferReport{Path: "https://h/" + strings.Repeat("ä", 5000), DoneBytes: 1 << 62, TotalBytes: 1 << 62, BytesPerSecond: 1 << 62})
	require.LessOrEqual(t, len(long), work.MaxTransfer)
	require.Contains(t, long, " of 4096.0 PiB")
}
