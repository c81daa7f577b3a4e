package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// MaxBytes bounds a graph as JSON.
	MaxBytes = 512 << 10
	// MaxNodes and MaxEdges bound what one has.
	MaxNodes = 5_000
	MaxEdges = 20_000
)

// Target is the one version of the target that a graph may name.
const Target = "0.2"

// Graph is a drawing.
type Graph struct {
	ID            string         `json:"id"`
	Name          string         `json:"name"`
	Version       string         `json:"version"`
	ScaicoreTgt   string         `json:"scaicore_target,omitempty"`
	Metadata      map[string]any `json:"metadata,omitempty"`
	Nodes         []Node         `json:"nodes"`
	Edges         []Edge         `json:"edges"`
	Variables     []Variable     `json:"variables,omitempty"`
	Config        Config         `json:"config"`
	Tests         []any          `json:"tests,omitempty"`
	positions     map[string]int // of the nodes, by id
	strangeFields []string
}

// Node is a step, or an entry.
type Node struct {
	ID       string         `json:"id"`
	Type     Kind           `json:"type"`
	Label    string         `json:"label"`
	Position Position       `json:"position"`
	Config   map[string]any `json:"config,omitempty"`
	Inputs   []Port         `json:"inputs,omitzero"`
	Outputs  []Port         `json:"outputs,omitzero"`
	// Breakpoint asks a person before the node runs.
	Breakpoint    bool `json:"breakpoint,omitempty"`
	strangeFields []string
}

// Position is where a node is drawn, in pixels.
type Position struct {
	X json.Number `json:"x"`
	Y json.Number `json:"y"`
}

// Port is where edges begin and end.
type Port struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
	Type  string `json:"type,omitempty"`
}

// EdgeType says what an edge means.
type EdgeType string

// The types of edges.
const (
	// Sequential: the target runs after the source.
	Sequential EdgeType = "sequential"
	// Conditional: it runs after the source if the condition is true.
	Conditional EdgeType = "conditional"
	// Data: the result of the source is an input of the target. It orders nothing.
	Data EdgeType = "data"
)

// Else is the condition of the edge that is taken when no other one is.
const Else = "else"

// Edge connects two ports.
type Edge struct {
	ID            string   `json:"id"`
	Type          EdgeType `json:"type"`
	Source        End      `json:"source"`
	Target        End      `json:"target"`
	Condition     string   `json:"condition,omitempty"`
	strangeFields []string
}

// End is a port of a node.
type End struct {
	Node string `json:"node"`
	Port string `json:"port"`
}

// Variable is a name that the flow has from its start.
type Variable struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"`
	Default any    `json:"default,omitempty"`
}

// Config has the settings of the whole flow.
type Config struct {
	Identity             *Identity      `json:"core_identity,omitempty"`
	Plugins              []any          `json:"plugins,omitempty"`
	Capabilities         []any          `json:"capabilities,omitempty"`
	Bunker               map[string]any `json:"bunker,omitempty"`
	ScaiQueue            map[string]any `json:"scaiqueue,omitempty"`
	PublishAsModel       bool           `json:"publish_as_model,omitempty"`
	ModelVisibilityGroup []string       `json:"model_visibility_group_ids,omitempty"`
	strangeFields        []string
}

// Identity is how the flow presents itself, and the models that it uses. The first model is that of nodes without a role.
type Identity struct {
	Name   string  `json:"name,omitempty"`
	Models []Model `json:"models,omitempty"`
}

// Model is a language model, by its role.
type Model struct {
	Role          string       `json:"role"`
	Ref           string       `json:"ref,omitempty"`
	Model         string       `json:"model"`
	Temperature   *json.Number `json:"temperature,omitempty"`
	Modalities    []string     `json:"modalities,omitempty"`
	SystemContext string       `json:"system_context,omitempty"`
	Fallback      []any        `json:"fallback,omitempty"`
}

// Node finds a node by its id.
func (g *Graph) Node(id string) (*Node, bool) {
	if g.positions == nil {
		g.index()
	}
	i, ok := g.positions[id]
	if !ok {
		return nil, false
	}
	return &g.Nodes[i], true
}

func (g *Graph) index() {
	g.positions = make(map[string]int, len(g.Nodes))
	for i := range g.Nodes {
		if _, twice := g.positions[g.Nodes[i].ID]; !twice {
			g.positions[g.Nodes[i].ID] = i
		}
	}
}

// InputPorts are the ports at which edges may end: those that are drawn, or those of the kind.
func (n *Node) InputPorts() []Port {
	if n.Inputs != nil {
		return n.Inputs
	}
	return n.Type.spec().Inputs
}

// OutputPorts are the ports at which edges may begin.
func (n *Node) OutputPorts() []Port {
	if n.Outputs != nil {
		return n.Outputs
	}
	return n.Type.spec().Outputs
}

// Port finds a port by its id.
func findPort(ports []Port, id string) (Port, bool) {
	if i := slices.IndexFunc(ports, func(p Port) bool { return p.ID == id }); i >= 0 {
		return ports[i], true
	}
	return Port{}, false
}

// Output finds an output port by its id.
func (n *Node) Output(id string) (Port, bool) { return findPort(n.OutputPorts(), id) }

// Input finds an input port by its id.
func (n *Node) Input(id string) (Port, bool) { return findPort(n.InputPorts(), id) }

// Breaks says whether a person is asked before the node runs.
func (n *Node) Breaks() bool { return n.Breakpoint || n.Config["breakpoint"] == true }

// Parse reads a graph. One that cannot be read is nil, with the one finding why.
func Parse(data []byte) (*Graph, []Diagnostic) {
	wrong := func(format string, args ...any) (*Graph, []Diagnostic) {
		return nil, []Diagnostic{{Severity: SeverityError, Code: "SYNTAX", Message: fmt.Sprintf(format, args...)}}
	}
	if len(data) > MaxBytes {
		return wrong("the flow has %d bytes, and at most %d are allowed", len(data), MaxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var g Graph
	if err := decoder.Decode(&g); err != nil {
		return wrong("%s", plainly(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return wrong("there is more after the flow")
	}
	if len(g.Nodes) > MaxNodes || len(g.Edges) > MaxEdges {
		return wrong("the flow has %d nodes and %d edges, and at most %d and %d are allowed", len(g.Nodes), len(g.Edges), MaxNodes, MaxEdges)
	}
	g.index()
	return &g, nil
}

// Encode returns the graph as JSON. Equal graphs give equal bytes.
func (g *Graph) Encode() ([]byte, error) { return json.Marshal(g) }

// plainly says what is wrong with JSON without the names of Go.
func plainly(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "this is no JSON: it ends too early"
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		is := strings.Replace(wrong.Value, "array", "list", 1)
		if wrong.Field == "" {
			return "a flow has to be an object, and this is a " + is
		}
		return fmt.Sprintf("%s may not be a %s", wrong.Field, is)
	}
	if wrong := new(json.SyntaxError); errors.As(err, &wrong) {
		return fmt.Sprintf("this is no JSON: %v, at byte %d", wrong, wrong.Offset)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// read decodes an object, and lists its fields that the type does not have.
func read(data []byte, into any, has []string) (strange []string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(has, name) {
			strange = append(strange, name)
		}
	}
	return strange, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (g *Graph) UnmarshalJSON(data []byte) (err error) {
	type plain Graph
	g.strangeFields, err = read(data, (*plain)(g), []string{
		"$schema", "id", "name", "version", "scaicore_target", "metadata", "nodes", "edges", "variables", "config", "tests",
	})
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Node) UnmarshalJSON(data []byte) (err error) {
	type plain Node
	n.strangeFields, err = read(data, (*plain)(n), []string{"id", "type", "label", "position", "config", "inputs", "outputs", "breakpoint"})
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Edge) UnmarshalJSON(data []byte) (err error) {
	type plain Edge
	e.strangeFields, err = read(data, (*plain)(e), []string{"id", "type", "source", "target", "condition"})
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Config) UnmarshalJSON(data []byte) (err error) {
	type plain Config
	c.strangeFields, err = read(data, (*plain)(c), []string{
		"core_identity", "plugins", "capabilities", "bunker", "scaiqueue", "publish_as_model", "model_visibility_group_ids",
	})
	return err
}
