package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/check"
)

func findings(t *testing.T, source string) []string {
	t.Helper()
	_, found := check.Source([]byte(source))
	var all []string
	for _, d := range found {
		all = append(all, d.Code+": "+d.Message)
	}
	return all
}

func inMain(body string) string {
	return `{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":` + body + `}]}`
}

// Every list of blocks counts, whatever its name: frames and the machine are as deep as the program.
func TestModule_boundsTheDepthOfBlocks(t *testing.T) {
	for open, closed := range map[string]string{
		`[{"kind":"if","id":"i%d","cases":[],"else":`:                        `}]`,
		`[{"kind":"try","id":"t%d","body":[],"catch":`:                       `}]`,
		`[{"kind":"try","id":"t%d","body":[],"finally":`:                     `}]`,
		`[{"kind":"debug","id":"d%d","compensate":`:                          `}]`,
		`[{"kind":"debug","id":"d%d","on_failure":[{"action":"fail","body":`: `}]}]`,
	} {
		nested := func(depth int) string {
			text := ""
			for i := range depth {
				text += fmt.Sprintf(open, i)
			}
			return inMain(text + `[{"kind":"debug","id":"last"}]` + strings.Repeat(closed, depth))
		}
		require.NotContains(t, findings(t, nested(31)), "TOO_DEEP: blocks are nested more than 32 deep", open)
		require.Contains(t, findings(t, nested(32)), "TOO_DEEP: blocks are nested more than 32 deep", open)
	}
}

// Forty flows that call each other have some 10^11 ways through them.
func TestModule_findsCyclesInManyFlows(t *testing.T) {
	program := func(circle bool) string {
		var flows []string
		for i := range 40 {
			var calls []string
			for j := range 40 {
				if j > i || circle && i == 39 && j == 0 {
					calls = append(calls, fmt.Sprintf(`{"kind":"core_call","id":"c%d","target":"self","flow":"f%d"}`, j, j))
				}
			}
			calls = append(calls, `{"kind":"debug","id":"d"}`)
			flows = append(flows, fmt.Sprintf(`{"name":"f%d","body":[%s]}`, i, strings.Join(calls, ",")))
		}
		return `{"schema_version":"0.1","name":"p","flows":[` + strings.Join(flows, ",") + `]}`
	}
	require.Empty(t, findings(t, program(false)))
	found := findings(t, program(true))
	require.Len(t, found, 1)
	require.Contains(t, found[0], "CYCLE: cycle detected: f0 -> ")
	require.Contains(t, found[0], "f39 -> f0")
}

func TestModule_boundsItsFindings(t *testing.T) {
	var statements []string
	for i := range 5_000 {
		statements = append(statements, fmt.Sprintf(`{"kind":"assign","name":"a%d","value":"b%d"}`, i, i))
	}
	found := findings(t, inMain(`[{"kind":"rigid","id":"r","statements":[`+strings.Join(statements, ",")+`]}]`))
	require.Len(t, found, 101)
	require.Equal(t, "MORE: there are 4900 more findings", found[100])

	_, long := check.Source([]byte(inMain(`[{"kind":"` + strings.Repeat("é", 100_000) + `","id":"r"}]`)))
	require.Less(t, len(long[0].Message), 1_100)
	require.True(t, check.Failed(long))
}

func TestModule_aWarningDoesNotHideAnError(t *testing.T) {
	var blocks []string
	for i := range 150 {
		blocks = append(blocks, fmt.Sprintf(`{"kind":"rigid","id":"r%d","statements":[]}`, i))
	}
	_, found := check.Source([]byte(inMain(`[` + strings.Join(blocks, ",") + `,{"kind":"wait","id":"w"}]`)))
	require.True(t, check.Failed(found))
}

// A stored program has to be readable, and it has the trees of its expressions.
func TestModule_boundsTheFormThatIsStored(t *testing.T) {
	expression := strings.TrimSuffix(strings.Repeat("input.a+", 50), "+")
	statement := `{"kind":"expression","expression":"` + expression + `"}`
	program := func(n int) string {
		return inMain(`[{"kind":"rigid","id":"r","statements":[` + strings.TrimSuffix(strings.Repeat(statement+",", n), ",") + `]}]`)
	}
	require.Less(t, len(program(1_000)), 512<<10)
	found := findings(t, program(1_000))
	require.Len(t, found, 1)
	require.Contains(t, found[0], "TOO_LARGE: with the trees of its expressions the program has ")
	require.Empty(t, findings(t, program(100)))
}

// Names of an iteration end with it.
func TestModule_namesOfAForeach(t *testing.T) {
	const each = `{"kind":"foreach","id":"each","items":"[1]","collect":"j","body":[
		{"kind":"compute","id":"j","result_binding":"job","action":"job","spec":{}},
		{"kind":"rigid","id":"r","statements":[{"kind":"assign","name":"x","value":"job"},{"kind":"assign","name":"y","value":"0"}]}]}`
	for _, expression := range []string{"j", "job", "x", "r"} {
		found := findings(t, inMain(`[`+each+`,{"kind":"rigid","id":"end","statements":[{"kind":"assign","name":"y","value":"0"},{"kind":"return","value":"`+expression+`"}]}]`))
		require.Equal(t, []string{`UNKNOWN_NAME: statements[1].value uses the name "` + expression + `", which a foreach binds: it ends with each iteration, so let the loop collect it`}, found)
	}
	require.Empty(t, findings(t, inMain(`[`+each+`,{"kind":"rigid","id":"end","statements":[{"kind":"assign","name":"y","value":"0"},{"kind":"return","value":"[y, each]"}]}]`)))
}

func TestModule_strangeStatements(t *testing.T) {
	require.Contains(t, findings(t, inMain(`[{"kind":"rigid","id":"r","statements":[{"kind":"return","expression":"1"}]}]`)),
		`UNKNOWN_FIELD: return statements have no field "expression"`)
	require.Contains(t, findings(t, inMain(`[{"kind":"checkpoint","id":"q","prompt":"?","type":"failure"}]`)),
		`BAD_NAME: the type "failure" is that of questions about failed steps`)
	require.Contains(t, findings(t, inMain(`[{"kind":"wait","id":"w","duration":"30501w"}]`)),
		`BAD_DURATION: 30501w is too long: at most 366 days are allowed`)
}
