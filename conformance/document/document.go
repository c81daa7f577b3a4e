// Package document reads the OpenAPI document of a gateway: it checks answers against it, and draws requests from it.
//
// Guarantees: requests that are drawn start nothing that runs long, and change no tokens or quotas of tenants that exist.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI document.
type Document struct {
	Paths      map[string]map[string]Operation `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`

	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// Operation is a method of a path.
type Operation struct {
	Parameters  []Parameter `json:"parameters"`
	RequestBody *struct {
		Required bool `json:"required"`
		Content  map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
	Permissions []string `json:"x-permissions"`
	Ours        bool     `json:"x-mind-choice"`
}

// Parameter is a parameter of an operation.
type Parameter struct {
	Name   string         `json:"name"`
	In     string         `json:"in"`
	Schema map[string]any `json:"schema"`
}

const documentURL = "openapi.json"

// Parse reads a document.
func Parse(raw []byte) (*Document, error) {
	d := &Document{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	return d, d.compiler.AddResource(documentURL, parsed)
}

// Names returns the names of all operations, such as "GET /jobs/{id}", without a prefix of their paths.
func (d *Document) Names(prefix string) []string {
	var names []string
	for path, operations := range d.Paths {
		for method := range operations {
			names = append(names, strings.ToUpper(method)+" "+strings.TrimPrefix(path, prefix))
		}
	}
	slices.Sort(names)
	return names
}

// Operation returns an operation; false: the document has none.
func (d *Document) Operation(method, path string) (Operation, bool) {
	op, ok := d.Paths[path][strings.ToLower(method)]
	return op, ok
}

// Answers returns an error if an answer is not documented: if its code is not in the document, or its body does not
// match the schema.
func (d *Document) Answers(method, path string, status int, raw []byte) error {
	op, ok := d.Operation(method, path)
	if !ok {
		return fmt.Errorf("%s %s is not in the OpenAPI document", method, path)
	}
	code := strconv.Itoa(status)
	response, ok := op.Responses[code]
	if !ok {
		return fmt.Errorf("HTTP %d is not documented (%s are): %s", status, strings.Join(slices.Sorted(maps.Keys(op.Responses)), ", "), clip(raw))
	}
	if _, ok := response.Content["application/json"]; !ok {
		return nil
	}
	pointer := func(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }
	at := documentURL + "#/paths/" + pointer(path) + "/" + strings.ToLower(method) + "/responses/" + code + "/content/" + pointer("application/json") + "/schema"
	schema, ok := d.compiled[at]
	if !ok {
		var err error
		if schema, err = d.compiler.Compile(at); err != nil {
			return fmt.Errorf("the schema of %s %s, HTTP %d: %w", method, path, status, err)
		}
		d.compiled[at] = schema
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("HTTP %d with a body that is not JSON: %s", status, clip(raw))
	}
	if err := schema.Validate(body); err != nil {
		return fmt.Errorf("HTTP %d with a body that does not match its schema: %w", status, err)
	}
	return nil
}

// BodySchema returns the schema of an operation's request body; nil if it has none.
func (d *Document) BodySchema(op Operation) map[string]any {
	if op.RequestBody == nil {
		return nil
	}
	return d.Resolve(op.RequestBody.Content["application/json"].Schema)
}

// Resolve returns the schema that a schema refers to, or itself.
func (d *Document) Resolve(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	var target map[string]any
	if json.Unmarshal(d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")], &target) != nil {
		return schema
	}
	return target
}

// clip shortens a body for a message.
func clip(raw []byte) string {
	const most = 300
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
