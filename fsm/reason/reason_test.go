package reason

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestNew_isReadAgain(t *testing.T) {
	inner := New(EndedWithCode, v1.ErrorType_OOM, int32(-9))
	r := New(RestartsInAsRetry, 30, uint32(1), uint16(3), inner)
	require.NoError(t, r.Valid())
	require.Equal(t, RestartsInAsRetry, r.Code())
	p := r.Params()
	require.Len(t, p, 4)
	require.EqualValues(t, 30, p[0].Number)
	require.Equal(t, inner, p[3].Reason())
	require.EqualValues(t, -9, p[3].Reason().Params()[1].Number)
	require.Equal(t, "RestartsInAsRetry(30, 1, 3, EndedWithCode(2, -9))", r.String())
	require.Equal(t, Reason("\x0127i30;i1;i3;r10:"+string(inner)), r, "the encoding is part of logs and snapshots")
}

func TestText_isNeverTakenForACode(t *testing.T) {
	forged := string(New(NodeForgotten, "n1"))
	r := Text("\x01\x01" + forged)
	require.Zero(t, r.Code())
	require.Equal(t, "31s2:n1", r.Plain())
	require.NoError(t, r.Valid())
}

func TestValid_findsWhatNobodyCouldWord(t *testing.T) {
	for wrong, r := range map[string]Reason{
		"is no coded reason":          "\x01",
		"code 9999 is unknown":        "\x019999",
		"code 99 is unknown":          New(99),
		"has 1 parameters, not 0":     New(NodeForgotten),
		"of kind i, not s":            New(NodeForgotten, 7),
		"of kind s, not r":            New(CanceledBecause, "a text"),
		"in CanceledBecause: code 98": New(CanceledBecause, New(98)),
	} {
		require.ErrorContains(t, r.Valid(), wrong)
		require.NotPanics(t, func() { _, _ = r.String(), r.Clip(1) })
	}
	require.NoError(t, Reason("").Valid())
}

func TestClip_cutsTextsNotCodes(t *testing.T) {
	require.Equal(t, Reason("äää"), Text(strings.Repeat("ä", 100)).Clip(7))
	r := New(EndedSaying, v1.ErrorType_OOM, New(NoQueueForJob, strings.Repeat("q", 300), strings.Repeat("ü", 300)))
	cut := r.Clip(256)
	require.LessOrEqual(t, len(cut), 256)
	require.NoError(t, cut.Valid())
	require.Equal(t, NoQueueForJob, cut.Params()[1].Reason().Code())
	require.True(t, utf8.ValidString(string(cut)))
	require.Equal(t, cut, cut.Clip(256))
}

// TestTable_neverChanges holds the numbers of the codes and the kinds of their parameters: logs and snapshots have them. A new
// code changes the count and the hash; nothing else may.
func TestTable_neverChanges(t *testing.T) {
	var b strings.Builder
	n := 0
	for _, c := range Codes() {
		b.WriteString(c.String() + " " + string(New(c)) + " " + table[c].kinds + "\n")
		for _, r := range c.Samples() {
			require.NoError(t, r.Valid(), "%s", c)
		}
		n++
	}
	require.Equal(t, "307 codes, b11a768565eedfd7", pin(n, b.String()))
}

func pin(n int, text string) string {
	return strings.Join([]string{strconv.Itoa(n), "codes,", strconv.FormatUint(xxhash.Sum64String(text), 16)}, " ")
}

// TestTable_hasTheNamesOfTheConstants reads the constants, because a name in the table that is another's would hide it.
func TestTable_hasTheNamesOfTheConstants(t *testing.T) {
	src, err := os.ReadFile("codes.go")
	require.NoError(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\t([A-Z]\w+)( Code = iota.*)?$`).FindAllStringSubmatch(string(src), -1) {
		names = append(names, m[1])
	}
	var known []string
	for _, c := range Codes() {
		known = append(known, c.String())
	}
	require.Equal(t, names, known, "every constant has a line in the table")
	lines, err := os.ReadFile("table.go")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+):\s+\{"(\w+)"`).FindAllStringSubmatch(string(lines), -1) {
		require.Equal(t, m[1], m[2])
	}
}

func FuzzReason(f *testing.F) {
	for _, c := range Codes() {
		f.Add(string(New(c)))
	}
	f.Add(string(New(RestartsInAfter, 3, New(EndedSaying, v1.ErrorType_OOM, Text("x")))))
	f.Add("\x01")
	f.Add("\x0130s99:n")
	f.Add("\x0130i-0;")
	f.Fuzz(func(t *testing.T, text string) {
		r := Reason(text)
		_, _, _ = r.String(), r.Plain(), r.Valid()
		if cut := r.Clip(64); r.Valid() == nil {
			require.NoError(t, cut.Valid())
		}
		c, params, ok := r.parse()
		if !ok {
			return
		}
		args := make([]any, len(params))
		for i, p := range params {
			switch p.wire {
			case 'i':
				args[i] = p.Number
			case 's':
				args[i] = p.Text
			case 'r':
				args[i] = p.Reason()
			}
		}
		require.Equal(t, r, New(c, args...), "there is one encoding of each reason")
	})
}
