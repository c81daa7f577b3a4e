package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func gatesIn(found []Finding) (gates []*v1.GateReport) {
	for _, f := range found {
		if g := f.Body.GetGate(); g != nil {
			gates = append(gates, g)
		}
	}
	return gates
}

func TestGates_areReported(t *testing.T) {
	for line, want := range map[string]string{
		`{"event":"gate","prompt":"Go on?"}`:                                             `{"name":"gate","prompt":"Go on?","options":[{"id":"continue","label":"Go on"},{"id":"cancel","label":"Cancel the job","cancels":true}]}`,
		`{"event":"gate","name":"a","prompt":"?","options":["go","cancel"]}`:             `{"name":"a","prompt":"?","options":[{"id":"go"},{"id":"cancel","cancels":true}]}`,
		`{"event":"gate","prompt":"?","options":[{"id":"cancel","cancels":false}]}`:      `{"name":"gate","prompt":"?","options":[{"id":"cancel"}]}`,
		`{"event":"gate","prompt":"?","options":["x"],"context":{"a":NaN}}`:              `{"name":"gate","prompt":"?","options":[{"id":"x"}],"contextJson":"{\"a\":null}"}`,
		`{"event":"gate","prompt":"?","options":["x"],"timeout":"7d","context":null}`:    `{"name":"gate","prompt":"?","options":[{"id":"x"}],"timeoutMs":"604800000"}`,
		`{"event":"gate","prompt":"?","options":["x"],"on_timeout":"resolve:x"}`:         `{"name":"gate","prompt":"?","options":[{"id":"x"}],"onTimeout":"resolve:x"}`,
		`{"event":"gate","prompt":"?","options":["x"],"quorum":{"needed":2,"of":3}}`:     `{"name":"gate","prompt":"?","options":[{"id":"x"}],"needed":2,"of":3}`,
		`{"event":"gate","prompt":"?","options":["x"],"assignee":"a","priority":"high"}`: `{"name":"gate","prompt":"?","options":[{"id":"x"}],"assignee":"a","priority":"high"}`,
	} {
		w := newWatched(t)
		w.announce(line)
		got := gatesIn(w.scan(time.Unix(1000, 0), false))
		require.Len(t, got, 1, line)
		text, err := protojson.Marshal(got[0])
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
}

// A gate that cannot be asked about is a remark to the user.
func TestGates_thatAskNothing(t *testing.T) {
	for line, says := range map[string]string{
		`{"event":"gate"}`: "prompt is missing",
		`{"event":"gate","prompt":"?","options":[{"id":""}]}`:                                               "an id of its own",
		`{"event":"gate","prompt":"?","options":["a","a"]}`:                                                 "an id of its own",
		`{"event":"gate","prompt":"?","options":["x; reboot"]}`:                                             "of letters, digits",
		`{"event":"gate","prompt":"?","context":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`: "nested deeper than 64",
		`{"event":"gate","prompt":"?","options":[1]}`:                                                       "an option is an id, or an object",
		`{"event":"gate","prompt":"?","options":"go"}`:                                                      "cannot be read",
		`{"event":"gate","prompt":"?","timeout":"soon"}`:                                                    `the timeout "soon"`,
		`{"event":"gate","prompt":"?","timeout":"-1h"}`:                                                     `the timeout "-1h"`,
		`{"event":"gate","prompt":"?","on_timeout":"resolve:x"}`:                                            "on_timeout",
		`{"event":"gate","prompt":"?","on_timeout":"explode"}`:                                              "on_timeout",
		`{"event":"gate","prompt":"?","priority":"urgent"}`:                                                 "priority",
		`{"event":"gate","prompt":"?","quorum":{"needed":3,"of":2}}`:                                        "needs 3 of 2",
		`{"event":"gate","prompt":"` + strings.Repeat("x", maxGatePrompt+1) + `"}`:                          "prompt of 2049 bytes",
		`{"event":"gate","name":"` + strings.Repeat("x", 65) + `","prompt":"?"}`:                            "has the name",
		`{"event":"gate","prompt":"?","context":"` + strings.Repeat("x", maxGateContext) + `"}`:             "context of",
	} {
		w := newWatched(t)
		var remarks []string
		w.OnRemark(func(text string) { remarks = append(remarks, text) })
		w.announce(line)
		require.Empty(t, gatesIn(w.scan(time.Unix(1000, 0), false)), line)
		require.Contains(t, strings.Join(remarks, "\n"), says, line)
		require.Contains(t, strings.Join(remarks, "\n"), "Nobody is asked", line)
	}
}

// The next agent reports a gate that was not acknowledged, once.
func TestGates_outliveTheAgent(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	w.announce(`{"event":"gate","prompt":"Go on?"}`)
	require.Len(t, gatesIn(w.scan(now, false)), 1)
	w = w.restarted()
	found := w.scan(now, false)
	require.Len(t, gatesIn(found), 1)
	for _, f := range found {
		if f.Acked != nil {
			f.Acked()
		}
	}
	w = w.restarted()
	require.Empty(t, gatesIn(w.scan(now, false)))
}
