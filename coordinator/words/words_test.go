package words

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// TestSentences_haveAllOfTheirParameters checks that every code has exactly one sentence, and that the sentence uses
// every parameter by its kind.
func TestSentences_haveAllOfTheirParameters(t *testing.T) {
	places := regexp.MustCompile(`\{([^}]*)\}`)
	place := regexp.MustCompile(`^(\d)(q| [A-Za-z_ ]+| [a-z]+\|[a-z]+)?$`)
	for _, c := range reason.Codes() {
		kinds, _ := c.Kinds()
		sentence, plain := sentences[c]
		_, function := written[c]
		require.NotEqual(t, plain, function, "%s needs either a sentence or a function", c)
		said := make([]bool, len(kinds))
		for _, found := range places.FindAllStringSubmatch(sentence, -1) {
			m := place.FindStringSubmatch(found[1])
			require.NotNil(t, m, "%s: {%s}", c, found[1])
			i, _ := strconv.Atoi(m[1])
			require.Less(t, i, len(kinds), "%s has no parameter {%s}", c, found[1])
			switch {
			case m[2] == "q":
				require.Equal(t, reason.KindText, kinds[i], "%s: {%s}", c, found[1])
			case m[2] != "":
				require.Equal(t, reason.KindNumber, kinds[i], "%s: {%s}", c, found[1])
			}
			said[i] = said[i] || !strings.Contains(m[2], "|")
		}
		require.False(t, plain && strings.ContainsAny(places.ReplaceAllString(sentence, ""), "{}%"), "%s: %s", c, sentence)
		for i := range said {
			require.True(t, said[i] || function, "%s does not say parameter %d", c, i)
		}
	}
	require.Len(t, reason.Codes(), len(sentences)+len(written), "words of no code")
}

var (
	begins = regexp.MustCompile(`^([a-z0-9"{]|CPUs? |GPUs? |[A-Z_]{2,})`)
	wrong  = map[string]*regexp.Regexp{
		"two spaces, or one before a stop": regexp.MustCompile(`  | [,;:.]`),
		"a space at an end":                regexp.MustCompile(`^ | $`),
		"a full stop at the end":           regexp.MustCompile(`\.$`),
		"what fmt says of mistakes":        regexp.MustCompile(`%!|\(MISSING\)`),
		"many where there is one":          regexp.MustCompile(`(^|[^-\w])1 (nodes|GPUs|CPUs|jobs|tasks|bytes|voters|coordinators|attempts|have|are|were|call)\b`),
		"one where there are many":         regexp.MustCompile(`(^|[^-\w])(0|3) (node|GPU|CPU|job|task|byte|voter|coordinator|attempt|has|is|was|calls)\b`),
		"a code instead of words":          regexp.MustCompile(`[a-z][A-Z][a-z]+\(`),
		"a contraction":                    regexp.MustCompile(`n't|'re`),
		"a riddle":                         regexp.MustCompile(`who` + `ever|ver` + `dict`),
	}
)

// TestOf_isPlainEnglish checks every sentence with ordinary parameters, and with the number 1.
func TestOf_isPlainEnglish(t *testing.T) {
	for _, c := range reason.Codes() {
		for i, r := range c.Samples() {
			said := Of(r)
			require.NotContains(t, said, "%!")
			if i == 2 {
				continue // Empty texts leave gaps. It is enough that nothing panics.
			}
			require.Regexp(t, begins, said)
			for what, found := range wrong {
				if found.MatchString(said) {
					t.Errorf("%s: %s: %q", c, what, said)
				}
			}
		}
	}
}

func TestOf_passesTextOn(t *testing.T) {
	require.Equal(t, "new fans", Of(reason.Text("new fans")))
	require.Equal(t, "its time has not come", Of("its time has not come"), "rows from before there were codes")
	require.Empty(t, Of(""))
	require.Equal(t, "broken", Of("\x01broken"))
	require.Equal(t, "code 9999(3)", Of("\x019999i3;"), "a code of a newer version")
	require.Equal(t, "NoJob(1, 2)", Of(reason.New(reason.NoJob, 1, 2)))
}

func TestOf_saysHowMany(t *testing.T) {
	demandOf := func(gpus int, kind string, nodes int) reason.Reason {
		return reason.New(reason.Demand, gpus, kind, 0, 0, 0, 0, 0, nodes, "")
	}
	for want, r := range map[string]reason.Reason{
		"needs 1 GPU on one node; most free on a node is 0":                         reason.New(reason.NeedsFreeGPUs, demandOf(1, "", 1), 0),
		"needs 4 x H100 on each of 2 nodes; 1 node has that free":                   reason.New(reason.NeedsFreeNodes, demandOf(4, "H100", 2), 1),
		"needs 4 x H100 on each of 2 nodes; 0 nodes have that free":                 reason.New(reason.NeedsFreeNodes, demandOf(4, "H100", 2), 0),
		"node n1 was silent for 60 s, and 2 of 3 coordinators call it dead":         reason.New(reason.NodeSilentAndDead, "n1", 60, 2, 3),
		"1 of 1 coordinator calls it dead":                                          reason.New(reason.CalledDead, 1, 1),
		"not heard of for 3s":                                                       reason.New(reason.NodeSilent, int64(3*time.Second)),
		"of 3 tasks, 1 has no retry left, 2 have no node that could replace theirs": reason.New(reason.TasksNotLost, 3, 1, 0, 2),
		"vouched":                 reason.New(reason.Vouched, reason.Text("")),
		"vouched for burnt":       reason.New(reason.Vouched, reason.Text("burnt")),
		"job job_1 is RUNNING":    reason.New(reason.JobIs, "job_1", v1.JobState_RUNNING),
		`there is no queue "a b"`: reason.New(reason.NoQueue, "a b"),
	} {
		require.Equal(t, want, Of(r))
	}
}

// TestOf_noWordChangesAHash applies the same log twice, with a changed sentence in between.
func TestOf_noWordChangesAHash(t *testing.T) {
	apply := func() (hash uint64, said string) {
		m := fsm.New()
		var raw [][]byte
		for _, c := range []kernel.Command{
			nodeverbs.RegisterNode{Node: work.Node{ID: "n1", BootID: "b"}},
			nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain},
		} {
			b, err := kernel.Encode(level.Newest, c)
			require.NoError(t, err)
			raw = append(raw, b)
		}
		m.Apply(1, kernel.Pack(level.Newest, time.Unix(1_700_000_000, 0), raw))
		n, ok := m.View().Node("n1")
		require.True(t, ok)
		return m.View().Hash(), Of(n.Reason)
	}
	hash, said := apply()
	before := sentences[reason.DrainedByOperator]
	defer func() { sentences[reason.DrainedByOperator] = before }()
	sentences[reason.DrainedByOperator] = "somebody pulled the plug"
	again, saidAgain := apply()
	require.Equal(t, hash, again)
	require.NotEqual(t, said, saidAgain)
}

// Names of job states are not shown to users.
func TestOf_howADependencyEnded(t *testing.T) {
	for state, want := range map[v1.JobState_Value]string{
		v1.JobState_CANCELED: "was canceled", v1.JobState_FAILED: "failed", v1.JobState_LOST: "was lost", v1.JobState_SUCCEEDED: "succeeded",
	} {
		require.Equal(t, "job_1, which it depends on, was to succeed and "+want, Of(reason.New(reason.DependencyDidNotSucceed, "job_1", state)))
		require.Equal(t, "job_1, which it depends on, was to fail and "+want, Of(reason.New(reason.DependencyDidNotFail, "job_1", state)))
	}
}

// The text about a window is right before it begins and while it lasts.
func TestOf_nodesKept(t *testing.T) {
	require.Equal(t, "needs 1 GPU; 2 nodes are kept for a maintenance or a reservation: before it begins for jobs whose time limit ends in time or that may be preempted, while it lasts for those that it is for",
		Of(reason.New(reason.NodesKept, reason.Text("needs 1 GPU"), 2)))
}
