package simulate

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/simulate"
	"github.com/mindcoordinator/mind/simulate/history"
)

// judged are the measures by which policies can be compared, with their names for --measure.
var judged = []struct {
	name, means string
	of          func(*simulate.Measures) float64
	text        func(float64) string
	// more: a larger value is better. A difference up to least does not count.
	more  bool
	least float64
}{
	{"mean-wait", "how long jobs wait on average", func(m *simulate.Measures) float64 { return m.WaitMeanSeconds }, seconds, false, 1},
	{"p99-wait", "how long all but one of 100 jobs wait at most", func(m *simulate.Measures) float64 { return m.WaitP99Seconds }, seconds, false, 1},
	{"mean-completion", "how long jobs take from submission to end on average", func(m *simulate.Measures) float64 { return m.CompletionMeanSeconds }, seconds, false, 1},
	{"p99-completion", "how long all but one of 100 jobs take at most", func(m *simulate.Measures) float64 { return m.CompletionP99Seconds }, seconds, false, 1},
	{"utilisation", "the part of all GPU time in which work was done that was kept", func(m *simulate.Measures) float64 { return 100 * m.Utilisation }, percent, true, 0},
	{"jain", "how equal the mean slowdowns of tenants are (Jain's index)", func(m *simulate.Measures) float64 { return m.JainTenants }, decimal(3), true, 0},
	{"worst-tenant", "the mean slowdown of the tenant that is served worst", func(m *simulate.Measures) float64 { return m.WorstTenantSlowdown }, decimal(2), false, 0},
}

// JudgedBy lists the measures by which policies can be compared.
func JudgedBy() []string {
	var names []string
	for i := range judged {
		names = append(names, judged[i].name)
	}
	return names
}

// JudgedHelp returns a line for each measure with its meaning.
func JudgedHelp() string {
	var b strings.Builder
	for i := range judged {
		fmt.Fprintf(&b, "  %-16s %s\n", judged[i].name, judged[i].means)
	}
	return b.String()
}

// Judge compares two runs by a measure. It returns, in words, by how much the second one is worse, or "" if it is not
// worse by more than the tolerance, a fraction of the first one's value.
func Judge(name string, was, is *simulate.Measures, tolerance float64) (string, error) {
	for i := range judged {
		m := &judged[i]
		if m.name != name {
			continue
		}
		before, after := m.of(was), m.of(is)
		worse := after - before
		if m.more {
			worse = -worse
		}
		if worse <= m.least || worse <= tolerance*math.Abs(before) {
			return "", nil
		}
		by := ""
		if before != 0 {
			by = ", " + strconv.FormatFloat(100*worse/math.Abs(before), 'f', 1, 64) + " % worse"
		}
		return fmt.Sprintf("%s would go from %s to %s%s", name, m.text(before), m.text(after), by), nil
	}
	return "", exit.Misuse(fmt.Errorf("--measure %s: it must be %s", name, strings.Join(JudgedBy(), ", ")))
}

// ParseTolerance parses a fraction such as "5%".
func ParseTolerance(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !(n >= 0 && n <= 100) {
		return 0, exit.Misuse(fmt.Errorf("--tolerance %s: it must be a percentage from 0%% to 100%%, such as 5%%", text))
	}
	return n / 100, nil
}

// Compare runs a history under the policy in force and under another one.
func Compare(ctx context.Context, stderr io.Writer, h *history.History, next policy.Policy) (was, is simulate.Measures, err error) {
	if was, err = runHistory(ctx, stderr, h, inForce, h.Policy); err == nil {
		is, err = runHistory(ctx, stderr, h, "new", next)
	}
	was.InForce = true
	return was, is, err
}

// PrintComparison prints the simulated part of the history, and the runs side by side.
func PrintComparison(w io.Writer, h *history.History, runs []simulate.Measures) error {
	for _, note := range h.About.Notes() {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
	return printTable(w, runs)
}

// inForce is the title of the present policy of a cluster.
const inForce = "in force"

// runHistory runs a history under one policy.
func runHistory(ctx context.Context, stderr io.Writer, h *history.History, name string, policy policy.Policy) (simulate.Measures, error) {
	m, err := simulate.Run(ctx, h.Cluster, h.Jobs, policy, progress(stderr, name, len(h.Jobs)))
	m.Policy = name
	return m, err
}
