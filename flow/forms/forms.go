// Package forms reads a program of a Core in each form in which it is written: the intermediate form, a drawing of the designer, and the
// YAML that ScaiFlow deploys.
package forms

import (
	"encoding/json"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/ir"
)

// Form is how a program is written. All forms are JSON, or YAML of the same shape.
type Form string

// The forms.
const (
	Program  Form = "program"  // the intermediate form
	Drawing  Form = "drawing"  // FlowGraph, the JSON of the designer
	Manifest Form = "manifest" // the YAML that ScaiFlow deploys
)

// Of tells the forms apart by the fields at the root. The name is that of the program; "": it has none. data is JSON; other data are a
// Program.
func Of(data []byte) (form Form, name string) {
	var root struct {
		Name  json.RawMessage `json:"name"`
		Nodes json.RawMessage `json:"nodes"`
		Core  json.RawMessage `json:"core"`
	}
	if json.Unmarshal(data, &root) != nil {
		return Program, ""
	}
	form = Program
	switch {
	case root.Core != nil:
		form = Manifest
		var core struct {
			Name json.RawMessage `json:"name"`
		}
		_ = json.Unmarshal(root.Core, &core)
		root.Name = core.Name
	case root.Nodes != nil:
		form = Drawing
	}
	_ = json.Unmarshal(root.Name, &name) // Something else than text is no name.
	return form, name
}

// Module reads a program of any form. One that cannot be read is nil, with the findings why. data is JSON.
func Module(data []byte) (*ir.Module, []check.Diagnostic) {
	form, _ := Of(data)
	switch form {
	case Manifest:
		content, err := compile.Import(data)
		if err != nil {
			return nil, []check.Diagnostic{{Severity: check.SeverityError, Code: "SYNTAX", Message: err.Error()}}
		}
		data = content
	case Program:
		return check.Source(data)
	}
	m, found := compile.Program(data)
	return m, Plain(found)
}

// Obstacles are the findings that keep a program from running.
func Obstacles(found []check.Diagnostic) []check.Diagnostic {
	var all []check.Diagnostic
	for _, d := range found {
		if d.Severity == check.SeverityError || d.Code == "NOT_SUPPORTED" {
			all = append(all, d)
		}
	}
	return all
}

// Plain are findings about a drawing as findings about a program.
func Plain(found []graph.Diagnostic) []check.Diagnostic {
	all := make([]check.Diagnostic, 0, len(found))
	for _, d := range found {
		all = append(all, check.Diagnostic{Severity: check.Severity(d.Severity), Code: d.Code, Message: d.Message, Path: d.Path, NodeID: d.NodeID})
	}
	return all
}
