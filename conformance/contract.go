package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is the gateway's OpenAPI document.
type contract struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`

	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

type operation struct {
	Parameters  []parameter `json:"parameters"`
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

type parameter struct {
	Name   string         `json:"name"`
	In     string         `json:"in"`
	Schema map[string]any `json:"schema"`
}

const documentURL = "openapi.json"

func loadContract(ctx context.Context, t Target) (*contract, error) {
	a, err := t.do(ctx, request{method: "GET", path: "/openapi.json"})
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	if a.code != http.StatusOK {
		return nil, fmt.Errorf("reading the OpenAPI document: HTTP %d", a.code)
	}
	c := &contract{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	if err := json.Unmarshal(a.raw, c); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.raw))
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	return c, c.compiler.AddResource(documentURL, document)
}

// names returns the names of all operations, such as "GET /jobs/{id}".
func (c *contract) names() []string {
	var names []string
	for path, operations := range c.Paths {
		for method := range operations {
			names = append(names, strings.ToUpper(method)+" "+strings.TrimPrefix(path, prefix))
		}
	}
	slices.Sort(names)
	return names
}

func (c *contract) operation(method, path string) (operation, bool) {
	op, ok := c.Paths[path][strings.ToLower(method)]
	return op, ok
}

// answers returns an error if an answer is not documented: if its code is not in the document, or its body does not
// match the schema.
func (c *contract) answers(method, path string, a *answer) error {
	op, ok := c.operation(method, path)
	if !ok {
		return fmt.Errorf("%s %s is not in the OpenAPI document", method, path)
	}
	code := strconv.Itoa(a.code)
	response, ok := op.Responses[code]
	if !ok {
		return fmt.Errorf("HTTP %d is not documented (%s are): %s", a.code, strings.Join(slices.Sorted(maps.Keys(op.Responses)), ", "), clip(a.raw))
	}
	if _, ok := response.Content["application/json"]; !ok {
		return nil
	}
	pointer := func(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }
	at := documentURL + "#/paths/" + pointer(path) + "/" + strings.ToLower(method) + "/responses/" + code + "/content/" + pointer("application/json") + "/schema"
	schema, ok := c.compiled[at]
	if !ok {
		var err error
		if schema, err = c.compiler.Compile(at); err != nil {
			return fmt.Errorf("the schema of %s %s, HTTP %d: %w", method, path, a.code, err)
		}
		c.compiled[at] = schema
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.raw))
	if err != nil {
		return fmt.Errorf("HTTP %d with a body that is not JSON: %s", a.code, clip(a.raw))
	}
	if err := schema.Validate(body); err != nil {
		return fmt.Errorf("HTTP %d with a body that does not match its schema: %w", a.code, err)
	}
	return nil
}

// bodySchema returns the schema of an operation's request body; nil if it has none.
func (c *contract) bodySchema(op operation) map[string]any {
	if op.RequestBody == nil {
		return nil
	}
	return c.resolve(op.RequestBody.Content["application/json"].Schema)
}

func (c *contract) resolve(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	var target map[string]any
	if json.Unmarshal(c.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")], &target) != nil {
		return schema
	}
	return target
}
