package virtual

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/virtual/machine"
)

// A leader that transfers leadership to an unreachable coordinator accepts sessions of agents and refuses their
// reports. An agent then reconnected at once, again and again, and virtual time did not advance. This was found by seed
// 1 with transfers among the faults.
func TestTransferToNobody_agentsDoNotStorm(t *testing.T) {
	stage(t, Options{Coordinators: 3, Agents: 2, Seed: 41}, func(s *scene) {
		job := s.running(&Job{Key: "job", Ranks: 1, Does: machine.Behaviour{Run: 30 * time.Second}})
		leader := s.leader()
		other := (leader + 1) % len(s.coordinators)
		s.isolate(s.coordinators[other].ip, true)
		// The end of a very short job is reported while leadership is being transferred.
		s.Submit(0, &Job{Key: "short", Ranks: 1, Does: machine.Behaviour{Run: 100 * time.Millisecond}})
		ctx, cancel := s.context("")
		_, err := s.client.Operators().TransferLeadership(client.WithCall(ctx, client.Call{Operator: true}), &v1.TransferLeadershipRequest{To: s.coordinators[other].id})
		cancel()
		require.Error(t, err, "it cannot be reached")
		time.Sleep(10 * time.Second)
		s.isolate(s.coordinators[other].ip, false)
		time.Sleep(time.Minute)
		s.Rest()
		s.Settle(10 * time.Minute)
		s.unharmed(job)
		sessions := 0
		for _, line := range s.Journal(journalLines) {
			if strings.Contains(line, ": INFO in session") {
				sessions++
			}
		}
		require.Less(t, sessions, 200, "an agent came back and back")
	})
}
