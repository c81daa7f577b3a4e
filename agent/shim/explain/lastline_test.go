package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLastLine(t *testing.T) {
	for name, tt := range map[string]struct{ stderr, want string }{
		"the last one": {"one\ntwo\n\n", "two"},
		"of a script":  {"Traceback (most recent call last):\n  File \"a\"\nValueError: a\n", "ValueError: a"},
		"of a script that handled an error before": {
			"Traceback (most recent call last):\n  File \"a\"\nValueError: a\nretried\nTraceback (most recent call last):\n  File \"b\"\nOSError: b\n", "OSError: b",
		},
		"not of what started it": {
			"Traceback (most recent call last):\n  File \"a\"\nValueError: a\nTraceback (most recent call last):\n  File \"/usr/bin/accelerate\"\n" +
				"subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n", "ValueError: a",
		},
		"a footer alone":                 {childFailed + "\n====\n", "===="},
		"no text":                        {"\xff\n", "\uFFFD"},
		"of the rank that failed first":  {contents(t, "torchrun-ranks.txt"), "ValueError: reward is broken (rank 1)"},
		"of the error that was raised":   {contents(t, "torchrun-chained.txt"), "OSError: first"},
		"of a rank that was killed":      {contents(t, "torchrun-killed.txt"), "Signal 9 (SIGKILL) received by PID 25966 (rank 0)"},
		"of a rank that prints no trace": {"train.py: no such option\nE1124 1 torch/distributed/elastic/x.py:1] failed\n" + footer(t), "train.py: no such option"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, LastLine([]byte(tt.stderr))) })
	}
}

// contents returns a recorded output of torchrun with a real program.
func contents(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}

// footer returns the end of a recorded output of torchrun, without the output of its ranks.
func footer(t *testing.T) string {
	text := contents(t, "torchrun-chained.txt")
	return text[strings.LastIndex(text, tracebackLine):]
}

func FuzzLastLine(f *testing.F) {
	f.Add([]byte(childFailed + "\n" + rootCause + "\n rank: 1\n"))
	f.Fuzz(func(t *testing.T, tail []byte) { require.NotContains(t, LastLine(tail), "\n") })
}
