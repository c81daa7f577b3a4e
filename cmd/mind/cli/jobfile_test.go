package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadBody_sendsWhatIsWritten(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"JSON":                                   {`{"name":"a","command_config":{"argv":["x"],"cwd":"/"}}`, `{"name":"a","command_config":{"argv":["x"],"cwd":"/"}}`},
		"a date is text":                         {"name: a\ncommand_config: {argv: [x], cwd: /}\nlabels: {date: 2026-01-01}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/"},"labels":{"date":"2026-01-01"}}`},
		"a time is text":                         {"name: a\ncommand_config: {argv: [x], cwd: /}\nscheduling_config: {not_before: 2026-01-01T00:00:00Z}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/"},"scheduling_config":{"not_before":"2026-01-01T00:00:00Z"}}`},
		"a key is text":                          {"name: a\ncommand_config: {argv: [x], cwd: /, environment: {1: a, true: b}}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/","environment":{"1":"a","true":"b"}}}`},
		"anchors and merge keys":                 {"name: a\ncommand_config: &c {argv: [x], cwd: /}\nresource_config: &r {gpu_count: 1}\noutput_config: {<<: *r}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/"},"resource_config":{"gpu_count":1},"output_config":{"gpu_count":1}}`},
		"a wrong type is the gateway's business": {"name: 5\ncommand_config: {argv: [x], cwd: /}\n", `{"name":5,"command_config":{"argv":["x"],"cwd":"/"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "job.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			got, err := requestOf(t, "-f", file)
			require.NoError(t, err)
			require.JSONEq(t, c.want, got)
		})
	}
}

func TestReadBody_refuses(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 7 {
		this, last := string(rune('b'+i)), string(rune('a'+i))
		bomb += this + ": &" + this + " [" + strings.TrimSuffix(strings.Repeat("*"+last+",", 10), ",") + "]\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                {"", "is empty"},
		"a list":                 {"- a\n", "must hold an object"},
		"text":                   {"hello", "must hold an object"},
		"a key twice":            {"name: a\nname: b\n", `"name" already defined`},
		"two jobs":               {"name: a\n---\nname: b\n", "more than one document"},
		"no YAML":                {"{{", "neither YAML nor JSON"},
		"no number":              {"resource_config: {gpu_count: .nan}\n", "line 1: .nan is not a number"},
		"what a flag would hide": {"name: a\nresource_config: 5\n", "resource_config must be an object"},
		"a bomb":                 {bomb, "excessive aliasing"},
		"too much":               {"name: " + strings.Repeat("a", fileLimit), "is larger than 8.0 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "job.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			_, err := readBody(file)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, file)
			require.Less(t, len(err.Error()), 400)
		})
	}
	_, err := readBody("/dev/zero")
	require.ErrorContains(t, err, "is larger than", "a device that never ends")
}

func TestReadBody_fromStdin(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdin := os.Stdin
	os.Stdin = r
	t.Cleanup(func() { os.Stdin = stdin })
	go func() {
		_, _ = io.WriteString(w, `{"name":"piped","command_config":{"argv":["x"]}}`)
		_ = w.Close()
	}()
	got, err := requestOf(t, "-f", "-")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"piped","command_config":{"argv":["x"],"cwd":"/here"}}`, got)
}

func TestSubmitRequest_refusesWhatIsNotUTF8(t *testing.T) {
	for at, args := range map[string][]string{
		"command_config.argv[1]":       {"cat", "f\xff"},
		"name":                         {"--name", "\xff\xfe", "x"},
		"command_config.environment.A": {"--env", "A=\xff", "x"},
		"labels":                       {"--label", "\xff=a", "x"},
		"command_config.cwd":           {"--cwd", "/\xff", "x"},
	} {
		_, err := requestOf(t, args...)
		require.ErrorContains(t, err, at)
		require.ErrorContains(t, err, "is not UTF-8")
	}
}
