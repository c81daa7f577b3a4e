package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func TestEvents_text(t *testing.T) {
	for want, data := range map[string]string{
		"job_1 new, QUEUED":                                       `{"topic":"job","job_id":"job_1","from":null,"to":"QUEUED","status_from":null,"status_to":"QUEUED"}`,
		"job_1 QUEUED -> PREPARING on a":                          `{"topic":"job","job_id":"job_1","from":"QUEUED","to":"STARTING","status_from":"QUEUED","status_to":"PREPARING","nodes":["a"]}`,
		"job_1 TRAINING changed on a,b":                           `{"topic":"job","job_id":"job_1","from":"RUNNING","to":"RUNNING","status_from":"TRAINING","status_to":"TRAINING","nodes":["a","b"]}`,
		"job_1 TRAINING -> COMPLETED":                             `{"topic":"job","job_id":"job_1","from":"RUNNING","to":"SUCCEEDED","status_from":"TRAINING","status_to":"COMPLETED"}`,
		"job_1 PREPARING, fetching s3://b/x: 1.0 of 2.0 GiB on a": `{"topic":"job","job_id":"job_1","from":"STARTING","to":"STARTING","status_from":"PREPARING","status_to":"PREPARING","nodes":["a"],"transfer":"fetching s3://b/x: 1.0 of 2.0 GiB"}`,
	} {
		var out strings.Builder
		require.NoError(t, printChange(&out, "table", rest.Event{Data: data}))
		require.True(t, strings.HasSuffix(out.String(), " "+want+"\n"), out.String())
	}
}
