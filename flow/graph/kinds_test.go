package graph

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The published set is closed: 24 kinds in nine categories. Each has what the designer needs to draw and edit it.
func TestKinds(t *testing.T) {
	require.Len(t, Kinds(), 24)
	require.Len(t, specs, 24)
	require.Len(t, Categories(), 9)
	of := map[string]int{}
	for _, c := range Categories() {
		of[c.Name] = 0
	}
	for _, s := range Kinds() {
		_, known := of[s.Category]
		require.True(t, known, s.Category)
		of[s.Category]++
		require.NotEmpty(t, s.Label)
		require.NotEmpty(t, s.Help)
		require.NotNil(t, s.Inputs)
		require.NotEmpty(t, s.Outputs)
		require.Equal(t, s.Kind.Entry(), len(s.Inputs) == 0)
		names := map[string]bool{}
		for _, f := range s.Fields {
			require.NotEmpty(t, f.Help, f.Name)
			require.False(t, names[f.Name], "%s has %s twice", s.Kind, f.Name)
			names[f.Name] = true
			require.Equal(t, f.Type == Choice, len(f.Choices) > 0)
		}
		_, err := json.Marshal(s)
		require.NoError(t, err)
	}
	for name, n := range of {
		require.NotZero(t, n, "no kind is of the category %s", name)
	}
}

func TestParse_keepsWhatItKnows(t *testing.T) {
	content := `{"id":"f","name":"x","version":"1.0.0","nodes":[{"id":"n","type":"entry_api","label":"N","position":{"x":1.50,"y":-2},"outputs":[]}],` +
		`"edges":[],"config":{}}`
	g, found := Parse([]byte(content))
	require.Empty(t, found)
	again, err := g.Encode()
	require.NoError(t, err)
	require.Equal(t, content, string(again))
}

// A node that is drawn with a list of ports has these, also if the list is empty.
func TestNode_ports(t *testing.T) {
	n := Node{Type: LogicLoop}
	require.Len(t, n.OutputPorts(), 2)
	n.Outputs = []Port{}
	require.Empty(t, n.OutputPorts())
	_, ok := n.Output(BodyPort)
	require.False(t, ok)
}

func TestBody_endsAtTheLoop(t *testing.T) {
	g, found := Parse([]byte(`{"name":"x","nodes":[],"edges":[
		{"id":"1","type":"sequential","source":{"node":"l","port":"out_body"},"target":{"node":"a","port":"in"}},
		{"id":"2","type":"sequential","source":{"node":"a","port":"out"},"target":{"node":"l","port":"in"}},
		{"id":"3","type":"data","source":{"node":"a","port":"out"},"target":{"node":"x","port":"in"}},
		{"id":"4","type":"sequential","source":{"node":"l","port":"out_done"},"target":{"node":"z","port":"in"}}]}`))
	require.Empty(t, found)
	require.Equal(t, map[string]bool{"a": true}, g.Body("l"))
}
