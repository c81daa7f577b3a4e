package explain_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/coordinator/words"
)

func TestExplain_saysWhatACodeMeans(t *testing.T) {
	g := clitest.NewGateway(t)
	const meaning = `NeedsFreeGPUs (210): why jobs wait
  it reads: needs {0}; most free on a node is {1}
  {0} is another reason
  {1} is a number
  what to do: wait, or see ` + "`mind explain JOB`" + ` for single changes with which it would start now
`
	for _, code := range []string{"NeedsFreeGPUs", "needsfreegpus", "210", "most free on a node"} {
		stdout, stderr, exit := clitest.Run(t, "explain", "--code", code)
		require.Zero(t, exit, stderr)
		require.Equal(t, meaning, stdout, code)
	}
	stdout, stderr, exit := clitest.Run(t, "explain", "--code", "its time limit is reached", "-o", "json")
	require.Zero(t, exit, stderr)
	var got struct {
		Reasons []words.Meaning `json:"reasons"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Len(t, got.Reasons, 2, "the words are in two sentences")
	require.Equal(t, "TimeLimitReached", got.Reasons[0].Code)
	require.Equal(t, "TimeLimitNear", got.Reasons[1].Code)

	_, stderr, exit = clitest.Run(t, "explain", "--code", "NoSuchThing")
	require.Equal(t, 1, exit)
	require.Contains(t, stderr, `no reason has the code or the number "NoSuchThing"`)
	for _, misuse := range [][]string{{"explain", "--code", "NoJob", "job_1"}, {"explain"}, {"explain", "--code", "NoJob", "-o", "xml"}} {
		_, _, exit = clitest.Run(t, misuse...)
		require.Equal(t, 2, exit, misuse)
	}
	require.Empty(t, g.Asked, "no cluster is asked")
}
