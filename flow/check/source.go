package check

import (
	"errors"

	"github.com/mindcoordinator/mind/flow/ir"
)

// Source reads a program and says all that is wrong with it. One that cannot be read is nil, with the one finding why.
func Source(data []byte) (*ir.Module, []Diagnostic) {
	m, err := ir.Parse(data)
	if err == nil {
		return m, Module(m)
	}
	found := Diagnostic{Severity: SeverityError, Code: "SYNTAX", Message: err.Error()}
	if where := new(ir.Error); errors.As(err, &where) {
		found.Message, found.BlockID = where.Message, where.Block
	}
	return nil, []Diagnostic{found}
}
