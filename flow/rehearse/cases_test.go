package rehearse_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

const tried = `{"schema_version":"0.1","name":"p","flows":[
	{"name":"main","body":[
		{"kind":"checkpoint","id":"ask","prompt":"?","options":["yes","no"]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"input.n + 1"}]}]},
	{"name":"bad","body":[{"kind":"rigid","id":"bad","statements":[{"kind":"fail","code":"BAD"}]}]}]}`

func runCases(t *testing.T, ctx context.Context, cases string) rehearse.Report {
	m, found := check.Source([]byte(tried))
	require.False(t, check.Failed(found), "%v", found)
	parsed, err := rehearse.ParseCases([]byte(cases))
	require.NoError(t, err)
	return rehearse.RunCases(ctx, m, parsed, time.Unix(0, 0))
}

func TestCases_sayWhyTheyFail(t *testing.T) {
	for cases, says := range map[string]string{
		`[{"name":"x","input":{"n":1},"answers":{"ask":{"resolution":"yes"}},"expect":{"output":2.0}}]`: "",
		`[{"input":{"n":1},"answers":{"ask":{"resolution":"yes"}},"expect":{"output":3}}]`:              "its output is 2, and 3 was expected",
		`[{"input":{"n":1},"expect":{}}]`:                  "the step ask has no answer: add ",
		`[{"flow":"bad","expect":{"error_code":"BAD"}}]`:   "",
		`[{"flow":"bad","expect":{"status":"failed"}}]`:    "",
		`[{"flow":"bad","expect":{"error_code":"OTHER"}}]`: "its error is BAD, and OTHER was expected",
		`[{"flow":"bad","expect":{}}]`:                     "it is failed, and completed was expected",
		`[{"flow":"none","expect":{}}]`:                    `the program has no flow "none"`,
		`[{"answers":[],"expect":{}}]`:                     "its answers: ",
		`[{"answers":{"nobody":1},"expect":{}}]`:           "nobody",
		`[{"input":{"n":"x"},"answers":{"ask":{"resolution":"yes"}},"expect":{"status":"failed","output":null}}]`: "",
	} {
		report := runCases(t, context.Background(), cases)
		require.Len(t, report.Results, 1)
		r := report.Results[0]
		require.Equal(t, says == "", r.Passed, "%s: %s", cases, r.Message)
		require.Contains(t, r.Message, says)
		require.Equal(t, 1, report.Passed+report.Failed)
	}
	report := runCases(t, context.Background(), `[{"input":{"n":1},"answers":{"ask":{"resolution":"yes"}},"expect":{}}]`)
	require.Equal(t, []any{"test 1", "completed", 2}, []any{report.Results[0].Name, report.Results[0].Status, len(report.Results[0].Steps)})
	require.Empty(t, runCases(t, context.Background(), `[]`).Results)
}

func TestCases_areBounded(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	report := runCases(t, over, `[{"flow":"bad","expect":{"error_code":"BAD"}}]`)
	require.Equal(t, 1, report.Failed)
	require.Contains(t, report.Results[0].Message, "it was not run")
	many := strings.TrimSuffix(strings.Repeat(`{"expect":{}},`, rehearse.MaxCases+1), ",")
	for text, says := range map[string]string{
		"[" + many + "]": fmt.Sprint("there are ", rehearse.MaxCases+1, " tests"), `{}`: "have to be a list", `[{"inputs":{}}]`: "test 1 is not valid",
	} {
		_, err := rehearse.ParseCases([]byte(text))
		require.ErrorContains(t, err, says)
	}
	_, err := json.Marshal(report)
	require.NoError(t, err)
}

// soon is a context that is over after it was asked a number of times.
type soon struct {
	context.Context
	left *int
}

func (s soon) Err() error {
	if *s.left--; *s.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A case that goes on for very long ends with the time that there is, and the next are not run.
func TestCases_endWithTheirTime(t *testing.T) {
	const long = `{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":[
		{"kind":"while","id":"on","when":"true","max_iterations":100000,"body":[{"kind":"wait","id":"w","duration":"1s"}]}]}]}`
	m, found := check.Source([]byte(long))
	require.False(t, check.Failed(found), "%v", found)
	cases, err := rehearse.ParseCases([]byte(`[{"expect":{}},{"expect":{}}]`))
	require.NoError(t, err)
	left := 50
	report := rehearse.RunCases(soon{context.Background(), &left}, m, cases, time.Unix(0, 0))
	require.Equal(t, 2, report.Failed)
	require.Contains(t, report.Results[0].Message, "it was stopped")
	require.NotEmpty(t, report.Results[0].Steps)
	require.Less(t, len(report.Results[0].Steps), 60)
	require.Contains(t, report.Results[1].Message, "it was not run")
}
