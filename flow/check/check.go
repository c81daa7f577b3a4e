// Package check says what is wrong with a program before it runs: every finding names the block and, if the program was compiled from a
// drawing, the node.
package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/ir"
)

// Severity says whether a finding stops a program.
type Severity string

// The severities. A program with a warning runs.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`
	Message  string   `json:"message"`
	// Path is where it is: "flows[0].body[2].cases[0].when".
	Path    string `json:"path,omitempty"`
	BlockID string `json:"block_id,omitempty"`
	NodeID  string `json:"node_id,omitempty"`
}

func (d Diagnostic) String() string {
	where := d.Path
	if d.BlockID != "" {
		where = "block " + d.BlockID
	}
	if d.NodeID != "" {
		where += " (node " + d.NodeID + ")"
	}
	if where != "" {
		where += ": "
	}
	return fmt.Sprintf("%s: %s%s [%s]", d.Severity, where, d.Message, d.Code)
}

// Failed says whether there is an error among findings.
func Failed(found []Diagnostic) bool {
	return slices.ContainsFunc(found, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// identifier matches the names that an expression can use.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// blockID matches ids of blocks. One that is no identifier can be named in steps, and in no expression.
var blockID = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)

// given are the names that every flow has.
var given = []string{"input", "trigger"}

// role matches the roles of models.
var role = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// notSupported counts findings about blocks that do not run yet.
const notSupported Severity = "not supported"

const (
	maxBlocks = 2_000
	maxDepth  = 32
	// maxFindings is how many errors and how many warnings are told, and maxMessage how long each is; bytes.
	maxFindings = 100
	maxMessage  = 1_000
)

// checker collects findings.
type checker struct {
	module *ir.Module
	found  []Diagnostic
	// counts has the number of findings of each severity, those that are left out included.
	counts map[Severity]int
}

// Module says all that is wrong with a program.
func Module(m *ir.Module) []Diagnostic {
	c := &checker{module: m, counts: map[Severity]int{}}
	if m.SchemaVersion != ir.SchemaVersion {
		c.at("schema_version", nil).error("SCHEMA_VERSION", "the schema version is %q, and this version of Mind reads %q", m.SchemaVersion, ir.SchemaVersion)
	}
	if strings.TrimSpace(m.Name) == "" {
		c.at("name", nil).error("NAME_MISSING", "the program has no name")
	}
	c.declarations()
	if len(m.Flows) == 0 {
		c.at("flows", nil).error("NO_ENTRY", "flow has no entry-point node: the program needs at least one flow")
	}
	seen := map[string]bool{}
	for i := range m.Flows {
		path := fmt.Sprintf("flows[%d]", i)
		f := &m.Flows[i]
		switch {
		case f.Name == "":
			c.at(path, nil).error("NAME_MISSING", "the flow has no name")
		case seen[f.Name]:
			c.at(path, nil).error("NAME_TWICE", "there are two flows of the name %q", f.Name)
		}
		seen[f.Name] = true
		c.flow(path, f)
	}
	c.calls()
	c.size()
	if more := c.counts[SeverityError] + c.counts[SeverityWarning] + c.counts[notSupported] - len(c.found); more > 0 {
		c.found = append(c.found, Diagnostic{Severity: SeverityWarning, Code: "MORE", Message: fmt.Sprintf("there are %d more findings", more)})
	}
	return c.found
}

// size reports a program that is too large in the form that is stored, which has the trees of its expressions.
func (c *checker) size() {
	data, err := c.module.Encode()
	if err != nil {
		c.at("", nil).error("SYNTAX", "the program cannot be written: %v", err)
	} else if len(data) > ir.MaxBytes {
		c.at("", nil).error("TOO_LARGE", "with the trees of its expressions the program has %d bytes, and at most %d are allowed", len(data), ir.MaxBytes)
	}
}

// declarations checks what stands before the flows.
func (c *checker) declarations() {
	variables := map[string]bool{}
	for i, v := range c.module.Variables {
		here := c.at(fmt.Sprintf("variables[%d]", i), nil)
		switch {
		case !identifier.MatchString(v.Name):
			here.error("BAD_NAME", "%q is no name for a variable: letters, digits and _ are allowed", v.Name)
		case slices.Contains(given, v.Name):
			here.error("NAME_TAKEN", "the variable %q has the name of something that every flow has", v.Name)
		case variables[v.Name]:
			here.error("NAME_TWICE", "there are two variables of the name %q", v.Name)
		}
		variables[v.Name] = true
	}
	roles := map[string]bool{}
	for i, m := range c.module.Models {
		here := c.at(fmt.Sprintf("models[%d]", i), nil)
		if !role.MatchString(m.Role) {
			here.error("BAD_ROLE", "%q is no role of a model: it has to match ^[a-z][a-z0-9_]*$", m.Role)
		} else if roles[m.Role] {
			here.error("NAME_TWICE", "there are two models of the role %q", m.Role)
		}
		roles[m.Role] = true
	}
	for i, t := range c.module.Triggers {
		here := c.at(fmt.Sprintf("triggers[%d]", i), nil)
		switch t.Kind {
		case "api", "webhook", "event":
		case "schedule":
			if len(strings.Fields(t.Cron)) != 5 {
				here.error("BAD_CRON", "the schedule %q does not have the five fields of cron", t.Cron)
			}
		default:
			here.error("BAD_TRIGGER", "there is no trigger of kind %q: api, webhook, schedule and event are", t.Kind)
		}
		if _, ok := c.module.Flow(t.TargetFlow); !ok {
			here.error("NO_FLOW", "the trigger starts the flow %q, which the program does not have", t.TargetFlow)
		}
	}
}

// flow checks the blocks of a flow, and then their names.
func (c *checker) flow(path string, f *ir.Flow) {
	if len(f.Body) == 0 {
		c.at(path+".body", nil).error("EMPTY_BODY", "the flow %q does nothing: its body is empty", f.Name)
	}
	ids, count := map[string]string{}, 0
	bound := map[string]*ir.Block{}
	f.Walk(path, func(at string, b *ir.Block) {
		count++
		here := c.at(at, b)
		switch {
		case b.ID == "":
			here.error("NAME_MISSING", "the block has no id")
		case !blockID.MatchString(b.ID):
			here.error("BAD_NAME", "%q is no id for a block: letters, digits, _, . and - are allowed, at most 63", b.ID)
		case ids[b.ID] != "":
			here.error("NAME_TWICE", "there are two blocks of the id %q, at %s and here", b.ID, ids[b.ID])
		}
		if ids[b.ID] == "" {
			ids[b.ID] = at
		}
		bound[b.ID] = b
		if depth(at) > maxDepth {
			here.error("TOO_DEEP", "blocks are nested more than %d deep", maxDepth)
		}
		c.block(here, b)
	})
	if count > maxBlocks {
		c.at(path, nil).error("TOO_MANY_BLOCKS", "the flow has %d blocks, and at most %d are allowed", count, maxBlocks)
	}
	f.Walk(path, func(at string, b *ir.Block) {
		if other := bound[b.ResultBinding]; b.ResultBinding != "" && other != nil && other != b {
			c.at(at, b).error("NAME_TAKEN", "its result_binding %q is the id of another block", b.ResultBinding)
		}
	})
	c.names(path, f)
}

// depth is how many lists of blocks a path is in.
func depth(path string) int {
	n := 0
	for part := range strings.SplitSeq(path, ".") {
		switch list, _, _ := strings.Cut(part, "["); list {
		case "body", "else", "catch", "finally", "compensate", "on_cancel":
			n++
		}
	}
	return n
}

// place is where a finding is.
type place struct {
	c     *checker
	path  string
	block *ir.Block
}

func (c *checker) at(path string, b *ir.Block) place { return place{c, path, b} }

// full says that no more findings of a severity are told.
func (c *checker) full(s Severity) bool { return c.counts[s] >= maxFindings }

func (p place) add(s Severity, code, format string, args ...any) {
	// Blocks that do not run yet leave room for errors: some callers take them as warnings.
	kind := s
	if code == "NOT_SUPPORTED" {
		kind = notSupported
	}
	full := p.c.full(kind)
	if p.c.counts[kind]++; full {
		return
	}
	d := Diagnostic{Severity: s, Code: code, Message: fmt.Sprintf(format, args...), Path: p.path}
	if len(d.Message) > maxMessage {
		d.Message = strings.ToValidUTF8(d.Message[:maxMessage], "") + "..."
	}
	if p.block != nil {
		d.BlockID, d.NodeID = p.block.ID, p.block.Node()
	}
	p.c.found = append(p.c.found, d)
}

func (p place) error(code, format string, args ...any) { p.add(SeverityError, code, format, args...) }

func (p place) warning(code, format string, args ...any) {
	p.add(SeverityWarning, code, format, args...)
}

// field is a place below this one.
func (p place) field(name string) place { p.path += "." + name; return p }
