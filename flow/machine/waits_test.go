package machine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/machine"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// A year that nanoseconds cannot hold is an error. It would fire at once.
func TestUntil_isBounded(t *testing.T) {
	for _, at := range []string{`'9999-12-31T00:00:00Z'`, `'0001-01-01T00:00:00Z'`, "8589934592", "-5", "1e300", "'tomorrow'", "null"} {
		p := begin(t, `[{"kind":"wait","id":"w","until":"`+at+`"}]`, nil)
		require.Equal(t, machine.Failed, p.out.Status, at)
		require.Equal(t, machine.CodeType, p.out.Err.Code, at)
	}
	for _, at := range []string{`'2200-01-01T00:00:00Z'`, `'1970-01-01T00:00:01Z'`, "1", "1.5", "8589934591"} {
		p := begin(t, `[{"kind":"wait","id":"w","until":"`+at+`"}]`, nil)
		require.Positive(t, p.open[1].At, at)
	}
}

func TestText_ofAValueIsJSON(t *testing.T) {
	p := begin(t, `[{"kind":"checkpoint","id":"ask","prompt":"{{input}}"}]`, map[string]any{"b": []any{int64(1), 2.5, nil}, "a": "<x>"})
	require.Equal(t, `{"a":"<x>","b":[1,2.5,null]}`, p.open[1].Question.Prompt)
}

// The state holds a bounded number of waits: an effect beyond it would never be answered.
func TestWaits_areBounded(t *testing.T) {
	body := `[{"kind":"foreach","id":"each","items":"range(%d)","max_concurrent":250,"body":[{"kind":"parallel","id":"many","branches":[%s]}]}]`
	branches := ""
	for i := range 16 {
		branches += sprintf(`,{"name":"b%d","body":[{"kind":"wait","id":"w%d","event":"go"}]}`, i, i)
	}
	p := begin(t, sprintf(body, 240, branches[1:]), nil)
	require.Equal(t, machine.Waiting, p.out.Status, p.out.Err)
	require.Len(t, p.open, 240*16)
	p = begin(t, sprintf(body, 260, branches[1:]), nil)
	require.Equal(t, machine.Waiting, p.out.Status, "250 at a time")
	require.Len(t, p.open, 250*16)
	branches += `,{"name":"more","body":[{"kind":"wait","id":"more","event":"go"}]}`
	p = begin(t, sprintf(body, 260, branches[1:]), nil)
	require.Equal(t, machine.Failed, p.out.Status)
	require.Equal(t, machine.CodeWaitLimit, p.out.Err.Code)
	require.Empty(t, p.open)
}
