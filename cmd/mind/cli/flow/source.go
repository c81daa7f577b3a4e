package flow

import (
	"encoding/json"
	"fmt"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/ir"
)

// form is how a flow is written.
type form string

// The forms.
const (
	program  form = "program"  // the intermediate form
	drawing  form = "drawing"  // FlowGraph, the JSON of the designer
	manifest form = "manifest" // the YAML that ScaiFlow deploys
)

// formOf tells the forms apart by the fields at the root.
func formOf(data []byte) form {
	var root struct {
		Nodes json.RawMessage `json:"nodes"`
		Core  json.RawMessage `json:"core"`
	}
	if json.Unmarshal(data, &root) != nil {
		return program
	}
	switch {
	case root.Core != nil:
		return manifest
	case root.Nodes != nil:
		return drawing
	}
	return program
}

// Program reads a flow of any form as a program. One that cannot be read is nil, with the findings why. data is JSON.
func Program(data []byte) (*ir.Module, []check.Diagnostic) {
	switch formOf(data) {
	case manifest:
		content, err := compile.Import(data)
		if err != nil {
			return nil, []check.Diagnostic{{Severity: check.SeverityError, Code: "SYNTAX", Message: err.Error()}}
		}
		data = content
	case program:
		return check.Source(data)
	}
	m, found := compile.Program(data)
	return m, plain(found)
}

// Source returns a flow of any form as the JSON of a program. A program is returned as it is, without a check. data is JSON.
func Source(file string, data []byte) ([]byte, error) {
	if formOf(data) == program {
		return data, nil
	}
	m, found := Program(data)
	for _, d := range found {
		if d.Severity == check.SeverityError || d.Code == "NOT_SUPPORTED" {
			return nil, fmt.Errorf("%s cannot be compiled: %s: `mind flow validate %s` lists all findings", file, d.Message, file)
		}
	}
	return m.Encode()
}

// plain are findings about a drawing as findings about a program.
func plain(found []graph.Diagnostic) []check.Diagnostic {
	all := make([]check.Diagnostic, 0, len(found))
	for _, d := range found {
		all = append(all, check.Diagnostic{Severity: check.Severity(d.Severity), Code: d.Code, Message: d.Message, Path: d.Path, NodeID: d.NodeID})
	}
	return all
}
