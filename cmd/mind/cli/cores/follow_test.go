package cores

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// events serves a list of events in pages, the newest first. The cursor is how many older ones there are.
type events struct {
	all   []string
	calls int
}

func (l *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.calls++
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	end := len(l.all)
	if c := r.URL.Query().Get("cursor"); c != "" {
		end, _ = strconv.Atoi(c)
	}
	from, next := max(0, end-limit), ""
	if from > 0 {
		next = strconv.Itoa(from)
	}
	page := []json.RawMessage{}
	for i := end - 1; i >= from; i-- {
		page = append(page, json.RawMessage(fmt.Sprintf(`{"type":%q}`, l.all[i])))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"events": page, "next_cursor": next}})
}

func (l *events) add(kinds ...string) { l.all = append(l.all, kinds...) }

func following(t *testing.T) (*events, func(first int) string) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	list := &events{}
	server := httptest.NewServer(list)
	t.Cleanup(server.Close)
	c, err := rest.NewClient(target.Flags{Addr: server.URL, Token: "x"})
	require.NoError(t, err)
	f := &follower{c: c}
	return list, func(first int) string {
		found, err := f.next(t.Context(), first)
		require.NoError(t, err)
		var kinds []string
		for _, e := range found {
			kinds = append(kinds, e.Type)
		}
		return strings.Join(kinds, " ")
	}
}

func TestFollower_readsEachEventOnce(t *testing.T) {
	list, next := following(t)
	require.Empty(t, next(10))
	list.add("a")
	require.Equal(t, "a", next(10))
	require.Empty(t, next(10))
	list.add("same", "same")
	require.Equal(t, "same same", next(10), "events of one moment may look the same")
	require.Empty(t, next(10))
	list.all = list.all[1:] // the cluster drops the oldest
	list.add("b")
	require.Equal(t, "b", next(10))

	var many, want []string
	for i := range 3 * eventPage {
		many = append(many, strconv.Itoa(i))
	}
	list.add(many...)
	want = append(want, many...)
	list.calls = 0
	require.Equal(t, strings.Join(want, " "), next(10))
	require.Equal(t, 4, list.calls)
	list.add("c")
	list.calls = 0
	require.Equal(t, "c", next(10))
	require.Equal(t, 1, list.calls, "nothing is read again that is known")
}

func TestFollower_begins(t *testing.T) {
	list, next := following(t)
	for i := range 2*eventPage + 7 {
		list.add(strconv.Itoa(i))
	}
	require.Equal(t, "205 206", next(2))
	list.add("x")
	require.Equal(t, "x", next(2))

	list, next = following(t)
	for i := range 2*eventPage + 7 {
		list.add(strconv.Itoa(i))
	}
	got := strings.Fields(next(2*eventPage + 1))
	require.Equal(t, []string{"6", "206"}, []string{got[0], got[len(got)-1]})
	require.Len(t, got, 2*eventPage+1)
}

func TestScreen_isDrawnAgain(t *testing.T) {
	var out strings.Builder
	s := &screen{w: &out, waits: newWaits(nil)}
	var e execution
	require.NoError(t, json.Unmarshal([]byte(`{"execution_id":"exec_1","status":"waiting","steps":[{"step":"call/nap","kind":"wait","status":"running"}],
		"waiting_for":[{"step":"call/nap","kind":"timer"}]}`), &e))
	require.NoError(t, s.update(t.Context(), &e))
	require.NoError(t, s.update(t.Context(), &e))
	pages := strings.Split(out.String(), "\x1b[H")
	require.Len(t, pages, 3)
	require.Equal(t, "\x1b[2J", pages[0])
	require.Equal(t, pages[1], pages[2])
	require.Contains(t, pages[1], "  call/nap  wait  running  1\x1b[K\n")
	require.Contains(t, pages[1], "call/nap waits for a time\x1b[K\n\x1b[J")
}

func TestWord_isOneWordForAShell(t *testing.T) {
	for text, want := range map[string]string{"ship": "ship", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "é": "'é'"} {
		require.Equal(t, want, word(text))
	}
}
