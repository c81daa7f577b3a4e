package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A job decides how large its reports are: what is too much for one log entry goes into several.
func TestInbox_boundsWhatItTakes(t *testing.T) {
	in := &inbox{fresh: make(chan struct{}, 1)}
	for _, n := range []int{maxReportBytes / 2, maxReportBytes / 3, maxReportBytes / 3, 2 * maxReportBytes, 1} {
		require.True(t, in.put([]*v1.Report{{Body: &v1.Report_Gate{Gate: &v1.GateReport{ContextJson: strings.Repeat("x", n)}}}}, nil, nil))
	}
	for range maxReports + 1 {
		in.reports = append(in.reports, &v1.Report{})
	}
	for _, want := range []int{2, 1, 1, maxReports, 2, 0} {
		reports, _, _ := in.take()
		require.Len(t, reports, want)
	}
}
