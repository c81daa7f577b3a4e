package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestCoordinators_sayWhetherTheyAreWell(t *testing.T) {
	const one = `{"id":"c1","leader":true,"voter":true,"liveness":"alive","reachable":true,"term":3,"applied_index":90,"lag":0,"state_hash":"9-ab","program":"v1"}`
	const two = `{"id":"c2","leader":false,"voter":true,"liveness":"alive","reachable":true,"term":3,"applied_index":88,"lag":2,"state_hash":"9-ab","program":"v1"}`
	const gone = `{"id":"c3","leader":false,"voter":true,"liveness":"dead","reachable":false}`
	for says, body := range map[string]string{
		"c1 leads, all hashes at index 88 agree, one coordinator may fail; feature level 2":      `"leader":"c1","quorum":2,"voters_reachable":3,"hashes":"AGREE"`,
		"c1 leads; one more loss stops writes: 2 voters answer, and it takes 2":                  `"leader":"c1","quorum":2,"voters_reachable":2,"hashes":"AGREE"`,
		"no quorum or no leader: 1 voters answer, and it takes 2; writes wait":                   `"leader":"c1","quorum":2,"voters_reachable":1,"hashes":"AGREE"`,
		"c1 leads, the hashes cannot be compared now, one coordinator may fail; feature level 2": `"leader":"c1","quorum":2,"voters_reachable":3,"hashes":"UNKNOWN"`,
		"the hashes at index 88 differ: see `mind raft verify`":                                  `"leader":"c1","quorum":2,"voters_reachable":3,"hashes":"DIFFER"`,
	} {
		g := clitest.NewGateway(t)
		g.On("GET /cluster/coordinators", clitest.Answer(200, `{"coordinators":[`+one+`,`+two+`,`+gone+`],"hash_index":88,"feature_level":2,`+body+`}`))
		stdout, stderr, code := clitest.Run(t, "coordinators")
		require.Zero(t, code, stderr)
		table := clitest.Squeeze(stdout)
		require.Contains(t, table, "c1 leader yes alive 3 90 0 9-ab v1\nc2 follower yes alive 3 88 2 9-ab v1\nc3 follower no dead - - - - -\n"+says)
	}
}

func TestFailovers_sayWhatEachCost(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /cluster/failovers", clitest.Answer(200, `{"failovers":[
		{"term":4,"leader":"c2","previous_leader":"c1","at":"2026-01-31T08:00:00Z","stood_still_seconds":0.934,"jobs_running":7,"jobs_harmed":0},
		{"term":2,"leader":"c1","previous_leader":"","at":"2026-01-31T07:00:00Z","stood_still_seconds":null,"jobs_running":0,"jobs_harmed":0}]}`))
	stdout, stderr, code := clitest.Run(t, "failovers")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m) 4 c2 c1 0.93 s 7 0$`, clitest.Squeeze(stdout))
	require.Regexp(t, `(?m) 2 c1 - - 0 0$`, clitest.Squeeze(stdout))
}
