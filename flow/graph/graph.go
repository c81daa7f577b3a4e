package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// MaxBytes bounds a graph as JSON.
	MaxBytes = 512 << 10
	// MaxNodes and MaxEdges bound what one has.
	MaxNodes = 5_000
	MaxEdges = 20_000
	// maxEntries bounds the flows of one graph, maxDepth the nesting of its JSON.
	maxEntries = 32
	maxDepth   = 64
)

// Target is the one version of the target that a graph may name.
const Target = "0.2"

// Graph is a drawing.
type Graph struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	ScaicoreTgt string         `json:"scaicore_target,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Nodes       []Node         `json:"nodes"`
	Edges       []Edge         `json:"edges"`
	Variables   []Variable     `json:"variables,omitempty"`
	Config      Config         `json:"config"`
	Tests       []any          `json:"tests,omitempty"`
	// lost are the fields that were read and are not kept.
	lost      []lostField
	positions map[string]int // of the nodes, by id
	following map[string][]*Edge
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
	Breakpoint bool `json:"breakpoint,omitempty"`
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
	ID        string   `json:"id"`
	Type      EdgeType `json:"type"`
	Source    End      `json:"source"`
	Target    End      `json:"target"`
	Condition string   `json:"condition,omitempty"`
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
	if len(data) > MaxBytes {
		return unreadable("the flow has %d bytes, and at most %d are allowed", len(data), MaxBytes)
	}
	return ParseLarge(data)
}

func unreadable(format string, args ...any) (*Graph, []Diagnostic) {
	return nil, []Diagnostic{{Severity: SeverityError, Code: "SYNTAX", Message: fmt.Sprintf(format, args...)}}
}

// ParseLarge is Parse without a bound of the size, for a graph that Mind has written itself.
func ParseLarge(data []byte) (*Graph, []Diagnostic) {
	wrong := unreadable
	if deeper(data, maxDepth) {
		return wrong("it is nested more than %d deep", maxDepth)
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
	if err := g.findLost(data); err != nil {
		return wrong("%s", plainly(err))
	}
	return &g, nil
}

// Encode returns the graph as JSON. Equal graphs give equal bytes.
func (g *Graph) Encode() ([]byte, error) { return marshal(g) }

// marshal is json.Marshal that writes <, > and & as they are: a graph does not grow when it is written again.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// deeper reports whether objects and lists are nested deeper than a bound. Other faults of JSON are for the decoder to say.
func deeper(data []byte, most int) bool {
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

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
