package graph

import (
	"fmt"
	"slices"
)

// Severity says whether a finding stops a flow.
type Severity string

// The severities. A flow with warnings alone can be deployed.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding.
type Diagnostic struct {
	Severity Severity
	Code     string
	Message  string
	// Path is where it is: "edges[2]", "nodes[3].config.guard".
	Path string
	// NodeID and EdgeID are those of the drawing; "": none.
	NodeID, EdgeID string
}

// MarshalJSON implements json.Marshaler. The published form has null for a node or an edge that there is not.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	some := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return marshal(struct {
		Severity Severity `json:"severity"`
		Code     string   `json:"code"`
		Message  string   `json:"message"`
		Path     string   `json:"path,omitempty"`
		NodeID   *string  `json:"node_id"`
		EdgeID   *string  `json:"edge_id"`
	}{d.Severity, d.Code, d.Message, d.Path, some(d.NodeID), some(d.EdgeID)})
}

func (d Diagnostic) String() string {
	return fmt.Sprintf("%s: %s [%s]", d.Severity, d.Message, d.Code)
}

// Failed says whether there is an error among findings.
func Failed(found []Diagnostic) bool {
	return slices.ContainsFunc(found, func(d Diagnostic) bool { return d.Severity == SeverityError })
}
