package chaos

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/conformance"
)

// The seed is fixed, so that a failed run can be repeated; `go run ./chaos/conform` draws other seeds.
func TestConformance_everyEndpointRoleAndBadInput(t *testing.T) {
	_, rest := startStopped(t)
	target := conformance.Target{URL: rest.Base, Token: rest.Token}
	ctx := within(t, 4*time.Minute)
	report, err := conformance.Run(ctx, target)
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, report.Print(&table))
	require.Zero(t, report.Broken(), "\n"+table.String())

	fuzzed, err := conformance.Fuzz(ctx, target, conformance.FuzzOptions{Seed: 20261121, Requests: 2000})
	require.NoError(t, err)
	require.Empty(t, fuzzed.Broken)
	require.NotZero(t, fuzzed.Codes[201], "what was drawn was never accepted: it says nothing")
}
