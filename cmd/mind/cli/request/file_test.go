package request

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			_, err := Read(file)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, file)
			require.Less(t, len(err.Error()), 400)
		})
	}
	_, err := Read("/dev/zero")
	require.ErrorContains(t, err, "is larger than", "a device that never ends")
}
