package sim

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// needed are rules, and sets of rules that can substitute for each other. The search begins shortly before a seed that
// is known to find an overlap.
//
// The simulation does not show that these rules are needed: RuleSettle and RuleHold, not even both, because an agent
// that was silent for long has to join the roster again, which keeps replacements away from it; RuleClosed without
// RuleRelay and RuleVotes (an agent that gets an answer from a peer with a session is renewed through it, and gossip
// hears it); RuleHello (lost tasks are dead, or were never launched); RuleVotes and RuleAttention, whose purpose is to
// avoid unnecessary losses.
var needed = []struct {
	what string
	off  Rule
	from uint64
}{
	{"any node may run replacements, whatever the lost node knows", RuleList, 5},
	{"rosters are acknowledged before they are on disk", RuleDurable, 7},
	{"tasks run on without asking", RuleAcks, 2},
	{"an answer that the session is open counts, and nothing else helps", RuleClosed | RuleRelay | RuleVotes, 65},
	{"a heartbeat is acknowledged without a proof of leadership", RuleVerify, 27},
	{"silence counts from before the term", RuleFresh, 7},
	{"no shim holds tasks to their deadlines", RuleDeadline, 8},
	{"what an earlier session ordered is launched on any renewal", RuleSession | RuleOrders | RuleReturn, 32},
}

// TestRules_eachIsNeeded leaves out rules. An overlap shows that the rule is needed; a search without a finding shows
// that the disturbances have become too mild.
func TestRules_eachIsNeeded(t *testing.T) {
	const budget = 400
	for _, rule := range needed {
		t.Run(rule.what, func(t *testing.T) {
			for seed := rule.from; seed < rule.from+budget; seed++ {
				if r := Run(seed, rule.off); r.Finding != nil {
					require.Equal(t, Overlap, r.Finding.Kind)
					t.Logf("seed %d, after %d runs", seed, seed-rule.from+1)
					return
				}
			}
			require.Fail(t, "no two attempts lived at a time without it")
		})
	}
}

// TestRules_explore counts the findings without a set of rules: MIND_SIM_WITHOUT has the rules as bits, MIND_SIM_SEEDS
// the number of runs.
func TestRules_explore(t *testing.T) {
	if os.Getenv("MIND_SIM_WITHOUT") == "" || os.Getenv("MIND_CHAOS_SEED") != "" {
		t.Skip("MIND_SIM_WITHOUT names no rules")
	}
	off, first := Rule(number(t, "MIND_SIM_WITHOUT", 0)), number(t, "MIND_SIM_FIRST", 1)
	found := 0
	for seed := first; seed < first+number(t, "MIND_SIM_SEEDS", 100); seed++ {
		if r := Run(seed, off); r.Finding != nil {
			if found++; found <= 3 {
				t.Logf("seed %d: %s", seed, r.Finding.Text)
			}
		}
	}
	t.Logf("%d findings without %#x", found, uint32(off))
}
