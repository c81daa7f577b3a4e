package ir

import (
	"encoding/json"
	"fmt"

	"github.com/mindcoordinator/mind/flow/expr"
)

// SchemaVersion is the one version of the form that is read.
const SchemaVersion = "0.1"

// MaxBytes bounds a module as JSON.
const MaxBytes = 512 << 10

// Module is a program.
type Module struct {
	SchemaVersion string     `json:"schema_version"`
	Name          string     `json:"name"`
	Version       string     `json:"version,omitempty"`
	Identity      *Identity  `json:"identity,omitempty"`
	Models        []Model    `json:"models,omitempty"`
	Plugins       []Plugin   `json:"plugins,omitempty"`
	Variables     []Variable `json:"variables,omitempty"`
	Triggers      []Trigger  `json:"triggers,omitempty"`
	Flows         []Flow     `json:"flows"`
}

// Identity is how a program presents itself to people and models.
type Identity struct {
	Name    string `json:"name,omitempty"`
	Persona string `json:"persona,omitempty"`
}

// Model is a language model that a program names by its role.
type Model struct {
	Role          string     `json:"role"`
	Ref           string     `json:"ref,omitempty"`
	Model         string     `json:"model"`
	Temperature   *float64   `json:"temperature,omitempty"`
	Modalities    []string   `json:"modalities,omitempty"`
	SystemContext string     `json:"system_context,omitempty"`
	Fallback      []Fallback `json:"fallback,omitempty"`
}

// Fallback is the model that is asked when the one before it does not answer.
type Fallback struct {
	Ref   string `json:"ref,omitempty"`
	Model string `json:"model"`
}

// Plugin is an external endpoint that a program calls by its alias.
type Plugin struct {
	Alias    string `json:"alias"`
	Endpoint string `json:"endpoint,omitempty"`
}

// Variable is a name that every flow has from its start.
type Variable struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"`
	Default any    `json:"default,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Variable) UnmarshalJSON(data []byte) error {
	type plain Variable
	if err := precisely(data, (*plain)(v)); err != nil {
		return err
	}
	var err error
	if v.Default, err = expr.Normalize(v.Default); err != nil {
		return fmt.Errorf("the variable %s: %w", clip(v.Name), err)
	}
	return nil
}

// Trigger says what starts a flow.
type Trigger struct {
	Kind       string `json:"kind"`
	Name       string `json:"name,omitempty"`
	TargetFlow string `json:"target_flow,omitempty"`
	Cron       string `json:"cron,omitempty"`
	Timezone   string `json:"timezone,omitempty"`
	// Event is the name of the events that start the flow, for the kind "event".
	Event string `json:"event,omitempty"`
}

// Flow is one function of a program.
type Flow struct {
	Name string `json:"name"`
	// Input names the fields of the input, each with its type as text, or with anything that describes it.
	Input    map[string]any `json:"input,omitempty"`
	Timeout  Duration       `json:"timeout,omitempty"`
	Body     []Block        `json:"body"`
	OnCancel []Block        `json:"on_cancel,omitempty"`
}

// Flow finds a flow by its name; the empty name is the first one.
func (m *Module) Flow(name string) (*Flow, bool) {
	for i := range m.Flows {
		if name == "" || m.Flows[i].Name == name {
			return &m.Flows[i], true
		}
	}
	return nil, false
}

// Encode returns the module as JSON. Equal modules give equal bytes.
func (m *Module) Encode() ([]byte, error) { return json.Marshal(m) }
