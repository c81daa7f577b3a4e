package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvents_text(t *testing.T) {
	for want, data := range map[string]string{
		"job_1 new, QUEUED":                                      `{"topic":"job","job_id":"job_1","to":"QUEUED"}`,
		"job_1 QUEUED -> STARTING on a":                          `{"topic":"job","job_id":"job_1","from":"QUEUED","to":"STARTING","nodes":["a"]}`,
		"job_1 RUNNING changed on a,b":                           `{"topic":"job","job_id":"job_1","from":"RUNNING","to":"RUNNING","nodes":["a","b"]}`,
		"job_1 STARTING, fetching s3://b/x: 1.0 of 2.0 GiB on a": `{"topic":"job","job_id":"job_1","from":"STARTING","to":"STARTING","nodes":["a"],"transfer":"fetching s3://b/x: 1.0 of 2.0 GiB"}`,
	} {
		var out strings.Builder
		require.NoError(t, printChange(&out, "table", event{data: data}))
		require.True(t, strings.HasSuffix(out.String(), " "+want+"\n"), out.String())
	}
}
