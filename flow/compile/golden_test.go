package compile_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
)

var update = flag.Bool("update", false, "write the golden files")

// golden is a case: a drawing, and all that compiling it says and makes.
type golden struct {
	name string
	flow []byte
}

// said is all that is said about a flow, and made of it.
func said(t *testing.T, c golden) string {
	var out strings.Builder
	fmt.Fprintf(&out, "==== %s\n%s\n", c.name, c.flow)
	program, found := compile.Program(c.flow)
	manifest, again := compile.Manifest(c.flow)
	require.Equal(t, found, again, "%s: both targets say the same", c.name)
	require.Equal(t, graph.Failed(found), program == nil)
	require.Equal(t, graph.Failed(found), manifest == nil)
	for _, d := range found {
		data, err := json.Marshal(d)
		require.NoError(t, err)
		fmt.Fprintf(&out, "%s\n", data)
	}
	if program != nil {
		data, err := program.Encode()
		require.NoError(t, err)
		fmt.Fprintf(&out, "-- program\n%s\n-- manifest\n%s", data, manifest)
	}
	return out.String()
}

// TestGoldens compares all that is made of more than 200 drawings, byte by byte, with what was read by a person once.
func TestGoldens(t *testing.T) {
	files := map[string][]golden{"structure": structures(), "findings": findings()}
	for _, spec := range graph.Kinds() {
		files[string(spec.Kind)] = kind(spec)
	}
	count := 0
	codes := map[string]bool{}
	for name, cases := range files {
		var out strings.Builder
		names := map[string]bool{}
		for _, c := range cases {
			require.False(t, names[c.name], "two cases are named %s", c.name)
			names[c.name] = true
			count++
			out.WriteString(said(t, c))
			for _, d := range compile.Check(c.flow) {
				codes[d.Code] = true
			}
		}
		file := filepath.Join("testdata", name+".golden")
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), out.String(), "%s: if the change is meant: go test ./flow/compile -run TestGoldens -update, and read the difference", file)
	}
	require.GreaterOrEqual(t, count, 200)
	for _, code := range allCodes {
		require.True(t, codes[code], "no drawing shows the finding %s", code)
	}
	for code := range codes {
		require.Contains(t, allCodes, code)
	}
}

// kind has the cases of a kind: with nothing but what it needs, with every field, and with each field wrong or missing.
func kind(spec graph.Spec) []golden {
	whole := func(config m) []byte {
		f := draw()
		f.with("config", m{
			"core_identity": m{"name": "Ada", "models": []m{{"role": "primary", "ref": "scaigrid", "model": "acme/m1", "temperature": 0.5}}},
		})
		if spec.Category == "entry" {
			f.nodes[0]["type"], f.nodes[0]["config"] = spec.Kind, config
			return f.text("end").edge("start -> end").json()
		}
		f.node("it", spec.Kind, config).text("end").edge("start -> it")
		switch spec.Kind {
		case graph.LogicLoop:
			f.text("body").edge("it.out_body -> body", "body -> it", "it.out_done -> end")
		case graph.LogicParallel:
			f.text("one", "two").edge("it.out_1 -> one", "it.out_2 -> two", "one -> end", "two -> end")
		case graph.LogicDecision:
			f.edge("it -[input.x > 1]-> end")
		default:
			f.edge("it -> end")
		}
		return f.json()
	}
	needed, full := m{}, m{}
	for _, f := range spec.Fields {
		if f.Required {
			needed[f.Name] = sample(f)
		}
		full[f.Name] = sample(f)
	}
	if spec.Kind == graph.LogicLoop {
		needed["items"] = "input.items"
	}
	cases := []golden{{"needed", whole(needed)}, {"full", whole(full)}}
	for _, f := range spec.Fields {
		if f.Required && f.Default == nil {
			left := m{}
			for k, v := range needed {
				if k != f.Name {
					left[k] = v
				}
			}
			cases = append(cases, golden{"without " + f.Name, whole(left)})
		}
		if f.Ours && len(spec.Fields) > 5 && f.Name != "items" && f.Name != "when" {
			continue // the common fields are tried with one kind
		}
		bad := m{f.Name: wrong(f)}
		for k, v := range needed {
			if k != f.Name {
				bad[k] = v
			}
		}
		cases = append(cases, golden{"wrong " + f.Name, whole(bad)})
	}
	return cases
}
