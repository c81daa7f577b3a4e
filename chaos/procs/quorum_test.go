package procs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// members makes a cluster of test servers: a gateway that lists the coordinators, and the HTTP endpoints of those that
// are up.
func members(t *testing.T, all map[string]http.HandlerFunc, voters ...string) *Cluster {
	t.Helper()
	type coordinator struct {
		ID    string `json:"id"`
		Voter bool   `json:"voter"`
	}
	var listed []coordinator
	info := Info{}
	for id, ready := range all {
		listed = append(listed, coordinator{id, strings.Contains(strings.Join(voters, " "), id)})
		server := httptest.NewServer(ready)
		t.Cleanup(server.Close)
		p := Component{ID: id, HTTPAddr: strings.TrimPrefix(server.URL, "http://"), PID: os.Getpid(), Argv: os.Args}
		if ready == nil {
			server.Close()
			p.PID, p.Argv = 0, nil
		}
		info.Coordinators = append(info.Coordinators, p)
	}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "stale", r.URL.Query().Get("consistency"), "there may be no quorum")
		text, _ := json.Marshal(map[string]any{"coordinators": listed})
		fmt.Fprintf(w, `{"status":"ok","data":%s}`, text)
	}))
	t.Cleanup(gateway.Close)
	info.Gateway.URL = gateway.URL
	c, err := Assemble(t.TempDir(), info, nil, http.DefaultClient)
	require.NoError(t, err)
	return c
}

func TestSpareOne_countsTheVotersThatAnswer(t *testing.T) {
	up := func(http.ResponseWriter, *http.Request) {}
	var asked atomic.Int64
	late := func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	for name, tt := range map[string]struct {
		members map[string]http.HandlerFunc
		voters  []string
		want    string
	}{
		"all of three":      {map[string]http.HandlerFunc{"c1": up, "c2": up, "c3": up}, []string{"c1", "c2", "c3"}, ""},
		"four of five":      {map[string]http.HandlerFunc{"c1": up, "c2": up, "c3": up, "c4": up, "c5": nil}, []string{"c1", "c2", "c3", "c4", "c5"}, ""},
		"one comes back":    {map[string]http.HandlerFunc{"c1": up, "c2": late, "c3": up}, []string{"c1", "c2", "c3"}, ""},
		"who does not vote": {map[string]http.HandlerFunc{"c1": up, "c2": up, "c3": up, "c4": nil}, []string{"c1", "c2", "c3"}, ""},
		"a cluster of one":  {map[string]http.HandlerFunc{"c1": up}, []string{"c1"}, "a cluster of 1 loses its quorum with any coordinator"},
		"a cluster of two":  {map[string]http.HandlerFunc{"c1": up, "c2": up}, []string{"c1", "c2"}, "a cluster of 2 loses"},
		"three of five":     {map[string]http.HandlerFunc{"c1": up, "c2": nil, "c3": up, "c4": nil, "c5": up}, []string{"c1", "c2", "c3", "c4", "c5"}, "only 3 of 5 voting coordinators can be reached, and 3 are needed: the cluster would stop if one more were taken away; bring c2 and c4 back first"},
		"two of three":      {map[string]http.HandlerFunc{"c1": up, "c2": up, "c3": nil}, []string{"c1", "c2", "c3"}, "only 2 of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := members(t, tt.members, tt.voters...).SpareOne(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.ErrorAs(t, err, new(*NoSpareError))
		})
	}
}
