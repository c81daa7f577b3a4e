package flow

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	drawn = `{"id": "flow_1", "name": "Greet", "version": "1.0.0", "nodes": [
		{"id": "start", "type": "entry_api", "label": "Start", "position": {"x": 0, "y": 0}},
		{"id": "hello", "type": "llm_rigid", "label": "Hello", "position": {"x": 200, "y": 0.50}, "config": {"template": "Hello {{request.name}}"}}],
		"edges": [{"id": "e", "type": "sequential", "source": {"node": "start", "port": "out_request"}, "target": {"node": "hello", "port": "in"}}],
		"config": {}}`
	crossed = `{"name": "x", "nodes": [{"id": "a", "type": "llm_rigid", "label": "A", "position": {"x": 0, "y": 0}, "config": {}}], "edges": []}`
)

func TestCompile_thereAndBack(t *testing.T) {
	source := file(t, "greet.flow.json", drawn)
	out, complaints, code := typed(t, "compile", source)
	require.Zero(t, code, complaints)
	yaml := filepath.Join(filepath.Dir(source), "greet.yaml")
	require.Equal(t, yaml+"\n", out)

	back := filepath.Join(t.TempDir(), "back.json")
	_, complaints, code = typed(t, "import", yaml, "--out", back)
	require.Zero(t, code, complaints)
	content, err := os.ReadFile(back)
	require.NoError(t, err)
	require.JSONEq(t, drawn, string(content))
	require.Contains(t, string(content), `"y":0.50`, "numbers keep their digits")

	for _, form := range []string{source, yaml} {
		out, complaints, code = typed(t, "compile", form, "--format", "ir", "--out", "-")
		require.Zero(t, code, complaints)
		var program struct {
			Flows []struct{ Name string }
		}
		require.NoError(t, json.Unmarshal([]byte(out), &program))
		require.Equal(t, "greet", program.Flows[0].Name)

		out, complaints, code = typed(t, "run", form, "--input", `{"name": "Ada"}`)
		require.Zero(t, code, complaints)
		require.Equal(t, "\"Hello Ada\"\n", out)
	}
}

func TestCompile_saysWhatIsWrong(t *testing.T) {
	source := file(t, "x.json", crossed)
	out, complaints, code := typed(t, "compile", source)
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, complaints, "node 'a': template is missing")
	require.Contains(t, complaints, "flow has no entry-point node [NO_ENTRY]")
	require.NoFileExists(t, filepath.Join(filepath.Dir(source), "x.yaml"))

	out, _, code = typed(t, "validate", source)
	require.Equal(t, 1, code)
	require.Contains(t, out, "[NO_ENTRY]")

	_, complaints, code = typed(t, "compile", file(t, "p.yaml", fine))
	require.Equal(t, 1, code)
	require.Contains(t, complaints, "is no drawing: it has no nodes")

	_, complaints, code = typed(t, "compile", source, "--format", "scai")
	require.Equal(t, 2, code)
	require.Contains(t, complaints, "use yaml or ir")

	_, complaints, code = typed(t, "import", source)
	require.Equal(t, 1, code)
	require.Contains(t, complaints, "has no core at its root")
}
