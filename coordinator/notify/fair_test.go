package notify

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// hangs answers everything but what a hanging host is asked, or a hanging path.
func hangs(req *http.Request) (int, error) {
	if strings.HasPrefix(req.URL.Host, "dead") || req.URL.Path == "/slow" {
		return silent(req)
	}
	return 200, nil
}

// Tenants whose endpoints hang, however many hosts they name, do not keep another one waiting.
func TestLead_tenantsThatHangDoNotStallOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		tenants, decisions, hosts int
		within                    time.Duration
	}{
		"two tenants, one host each": {2, 1000, 1, time.Second},
		"two tenants, many hosts":    {2, 1000, 500, time.Second},
		"more tenants than requests": {20, 100, 100, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := newState(t), &receiver{}
				r.answers(hangs)
				for i := range tc.decisions {
					for bad := range tc.tenants {
						s.ask(fmt.Sprintf("bad%d", bad), fmt.Sprintf("https://dead%d.example/x", i%tc.hosts))
					}
				}
				defer lead(t, s, r, nil)()
				pass(time.Minute)
				for i := range 3 {
					id := s.ask("zeta", "https://good.example/x")
					pass(tc.within)
					require.Empty(t, s.decision(id).Untold, "notice %d", i)
				}
			})
		})
	}
}

// A tenant with a slow path takes nothing from another one that notifies the same host, and has a share of its own there.
func TestLead_aSlowPathIsOnlyItsTenantsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		r.answers(hangs)
		for i := range 200 {
			s.ask("mean", []string{"https://shared.example/slow", "https://Shared.Example.:8443/slow"}[i%2])
		}
		defer lead(t, s, r, nil)()
		pass(time.Second)
		require.Len(t, r.seen(), perEndpoint, "a host is the same one however it is written")
		id := s.ask("acme", "https://shared.example/x")
		pass(time.Second)
		require.Empty(t, s.decision(id).Untold)
		pass(time.Hour)
		require.Less(t, len(r.seen()), 40, "a host that hangs is tried after growing pauses, with one request at a time")
		r.answers(nil)
		pass(10 * time.Minute)
		require.Zero(t, s.View().UntoldCount())
	})
}

// Decisions that wait for their next try do not use up what a round looks at.
func TestChoose_passesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState(t)
		turn := newTurn(sender(t, func(c *Config) { c.Hosts, c.State = []string{"*.example"}, s }))
		for range 1000 {
			s.ask("acme", "https://dead.example/x")
		}
		for _, n := range turn.choose(maxLooked) {
			turn.take(result{sent: n, err: errTimeout, took: timeout})
		}
		turn.note(t.Context())
		require.Empty(t, turn.choose(maxLooked))
		id := s.ask("umbrella", "https://good.example/x")
		chosen := turn.choose(maxLookedEach)
		require.Len(t, chosen, 1)
		require.Equal(t, id, chosen[0].decision)
		require.Equal(t, 1, turn.busy)
	})
}

// A term forgets decisions and endpoints that have nothing to send.
func TestSweep_forgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState(t)
		turn := newTurn(sender(t, func(c *Config) { c.Hosts, c.State = []string{"*.example"}, s }))
		s.ask("acme", "https://a.example/x")
		s.ask("umbrella", "https://b.example/x")
		for _, n := range turn.choose(maxLooked) {
			var err error
			if n.tenant == "umbrella" {
				err = errTimeout
			}
			turn.take(result{sent: n, err: err, took: timeout})
		}
		turn.note(t.Context())
		require.Len(t, turn.known, 2)
		pass(sweepEvery)
		require.Len(t, turn.choose(maxLooked), 1, "the pause of umbrella is over")
		require.Len(t, turn.known, 1)
		require.Len(t, turn.tenants, 1)
	})
}
