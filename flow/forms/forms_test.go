package forms

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/compile"
)

const drawing = `{"name":"Greet","nodes":[{"id":"start","type":"entry_api","label":"Start","position":{"x":0,"y":0}},
 {"id":"hello","type":"llm_rigid","label":"Hello","position":{"x":200,"y":0},"config":{"template":"Hello {{request.name}}"}}],
 "edges":[{"id":"e","type":"sequential","source":{"node":"start","port":"out_request"},"target":{"node":"hello","port":"in"}}],"config":{}}`

// Each form of a program is the same program.
func TestModule_ofEachForm(t *testing.T) {
	m, found := Module([]byte(drawing))
	require.Empty(t, Obstacles(found))
	want, err := m.Encode()
	require.NoError(t, err)
	yaml, _ := compile.Manifest([]byte(drawing))
	manifest, err := compile.JSON(yaml)
	require.NoError(t, err)
	for text, form := range map[string]Form{drawing: Drawing, string(manifest): Manifest, string(want): Program} {
		is, name := Of([]byte(text))
		require.Equal(t, form, is)
		require.Equal(t, map[Form]string{Drawing: "Greet", Manifest: "greet", Program: "Greet"}[form], name)
		m, found := Module([]byte(text))
		require.Empty(t, Obstacles(found))
		got, err := m.Encode()
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), form)
	}
}

func TestModule_says(t *testing.T) {
	for text, want := range map[string]string{
		`{"core":{"flows":3}}`:           "no entry",
		`{"name":"x","nodes":[]}`:        "no entry",
		`[]`:                             "",
		`{"name":3,"nodes":7,"edges":4}`: "name",
	} {
		m, found := Module([]byte(text))
		require.Nil(t, m, text)
		require.NotEmpty(t, Obstacles(found), text)
		require.Contains(t, Obstacles(found)[0].Message, want, text)
	}
}
