package render

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Empty cells, also at the end of a row, do not move the columns of other rows.
func TestTable_isAlignedWhateverIsEmpty(t *testing.T) {
	var b strings.Builder
	table := NewTable(&b, "JOB", "NODES", "REASON")
	table.Row("job_1", "a-long-name", "")
	table.Row("job_2", "", "")
	table.Row("job_3", "n1", "waits")
	table.Row("job_4")
	table.Row("jüb_5", "n1", "waits")
	require.NoError(t, table.Flush())
	require.Equal(t, `JOB    NODES        REASON
job_1  a-long-name
job_2
job_3  n1           waits
job_4
jüb_5  n1           waits
`, b.String())
}

func TestTable_fits(t *testing.T) {
	var b strings.Builder
	fill := func(width int) string {
		b.Reset()
		table := NewTable(&b, "NODE", "VERSION", "CPUS", "REASON").Fit(width, "VERSION", "CPUS", "NONE")
		table.Row("n1", "v1.2.3-long", "64", "the node is drained by an operator for a new power supply")
		table.Row("n2", "v1.2.3-long", "64", "")
		require.NoError(t, table.Flush())
		for line := range strings.Lines(b.String()) {
			require.True(t, width == 0 || len([]rune(strings.TrimSuffix(line, "\n"))) <= width, line)
		}
		return b.String()
	}
	require.Contains(t, fill(0), "v1.2.3-long  64    the node is drained by an operator for a new power supply\n")
	require.Equal(t, `NODE  REASON
n1    the node is drained
      by an operator for a
      new power supply
n2
`, fill(26))
	require.Equal(t, `NODE  REA…
n1    the…
n2
`, fill(10))
	require.Contains(t, fill(70), "NODE  CPUS  REASON", "the least important column goes first")
	require.NotContains(t, fill(70), "VERSION")
}

func TestWidth_ofWhatIsNoTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/x")
	require.NoError(t, err)
	defer f.Close()
	require.Zero(t, Width(f))
	require.Zero(t, Width(&strings.Builder{}))
	require.False(t, Colored(f))
}

// The program's end of a pseudo terminal counts as a terminal.
func TestColored_asTheUserWants(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine gives no terminals: ", err)
	}
	defer terminal.Close()
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 72, Row: 20}))
	require.Equal(t, 72, Width(terminal))
	for _, one := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", one.noColor)
		t.Setenv("TERM", one.term)
		require.Equal(t, one.want, Colored(terminal), one)
	}
}
