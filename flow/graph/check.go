package graph

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxFindings bounds the findings of each severity.
	maxFindings = 200
	maxText     = 1_000
)

var (
	nodeID  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,47}$`)
	semver  = regexp.MustCompile(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)
	roleFmt = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

var modalities = []string{"text", "structured_output", "vision", "tts", "stt", "embedding", "image_generation"}

// taken are the words that no node, variable or result may be named with.
var taken = map[string]bool{"input": true, "trigger": true, "true": true, "false": true, "null": true, "in": true}

// checker collects findings.
type checker struct {
	g      *Graph
	found  []Diagnostic
	counts map[Severity]int
	// bodies has the bodies of the loops, by the id of the loop.
	bodies map[string]map[string]bool
}

// place is where a finding is.
type place struct {
	c          *checker
	path       string
	node, edge string
}

// locate finds the node or the edge of a path.
func (p *place) locate() {
	var i int
	if _, err := fmt.Sscanf(p.path, "nodes[%d]", &i); err == nil && i < len(p.c.g.Nodes) {
		p.node = p.c.g.Nodes[i].ID
	}
	if _, err := fmt.Sscanf(p.path, "edges[%d]", &i); err == nil && i < len(p.c.g.Edges) {
		p.edge = p.c.g.Edges[i].ID
	}
}

func (p place) field(name string) place { p.path += "." + name; return p }

func (p place) add(s Severity, code, format string, args ...any) {
	if p.c.counts[s]++; p.c.counts[s] > maxFindings {
		return
	}
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	p.c.found = append(p.c.found, Diagnostic{Severity: s, Code: code, Message: text, Path: p.path, NodeID: p.node, EdgeID: p.edge})
}

func (p place) error(code, format string, args ...any) { p.add(SeverityError, code, format, args...) }

func (p place) warning(code, format string, args ...any) {
	p.add(SeverityWarning, code, format, args...)
}

// Check says what is wrong with a graph as a drawing.
func Check(g *Graph) []Diagnostic {
	c := &checker{g: g, counts: map[Severity]int{}}
	c.head()
	c.config()
	c.nodes()
	c.edges()
	c.entries()
	c.cycles()
	if more := c.counts[SeverityError] + c.counts[SeverityWarning] - len(c.found); more > 0 {
		c.found = append(c.found, Diagnostic{Severity: SeverityWarning, Code: "MORE", Message: fmt.Sprintf("there are %d more findings", more)})
	}
	return c.found
}

func (c *checker) at(path string) place      { return place{c: c, path: path} }
func (c *checker) node(i int, n *Node) place { return place{c, fmt.Sprintf("nodes[%d]", i), n.ID, ""} }

func (c *checker) edge(i int, e *Edge) place { return place{c, fmt.Sprintf("edges[%d]", i), "", e.ID} }

func (c *checker) head() {
	g, top := c.g, c.at("")
	for _, f := range g.lost {
		here := place{c: c, path: f.path}
		if here.path == "" {
			here.path = f.name
		} else {
			here = here.field(f.name)
		}
		here.locate()
		here.warning("UNKNOWN_FIELD", "there is no field '%s' here: it is not kept", f.name)
	}
	if strings.TrimSpace(g.Name) == "" {
		c.at("name").error("NAME_MISSING", "the flow has no name")
	}
	if g.ID == "" {
		top.warning("NAME_MISSING", "the flow has no id: it gets one when it is saved")
	}
	if g.Version != "" && !semver.MatchString(g.Version) {
		c.at("version").error("BAD_VERSION", "the version is '%s', and has to be three numbers, such as 1.0.0", g.Version)
	}
	if g.ScaicoreTgt != "" && g.ScaicoreTgt != Target {
		c.at("scaicore_target").error("BAD_TARGET", "the scaicore_target is '%s', and this version of Mind knows '%s'", g.ScaicoreTgt, Target)
	}
	if created, ok := g.Metadata["created"].(string); ok {
		if _, err := time.Parse(time.RFC3339, created); err != nil {
			c.at("metadata.created").warning("BAD_TIME", "'%s' is no time of ISO 8601, such as 2027-01-31T12:00:00Z", created)
		}
	}
	names := map[string]bool{}
	for i, v := range g.Variables {
		here := c.at(fmt.Sprintf("variables[%d]", i))
		switch {
		case !identifier.MatchString(v.Name) || taken[v.Name]:
			here.error("BAD_NAME", "'%s' is no name for a variable: letters, digits and _ are allowed, and not input or trigger", v.Name)
		case c.isNode(v.Name):
			here.error("NAME_TWICE", "the variable '%s' has the id of a node", v.Name)
		case names[v.Name]:
			here.error("NAME_TWICE", "there are two variables of the name '%s'", v.Name)
		}
		names[v.Name] = true
	}
}

func (c *checker) isNode(id string) bool { _, ok := c.g.Node(id); return ok }

func (c *checker) config() {
	identity := c.g.Config.Identity
	if identity == nil {
		return
	}
	roles := map[string]bool{}
	for i := range identity.Models {
		m := &identity.Models[i]
		here := c.at(fmt.Sprintf("config.core_identity.models[%d]", i))
		switch {
		case !roleFmt.MatchString(m.Role):
			here.error("BAD_ROLE", "'%s' is no role of a model: it has to match ^[a-z][a-z0-9_]*$", m.Role)
		case roles[m.Role]:
			here.error("NAME_TWICE", "there are two models of the role '%s'", m.Role)
		}
		roles[m.Role] = true
		if m.Model == "" {
			here.error("FIELD_MISSING", "the model of the role '%s' has no name", m.Role)
		}
		if m.Temperature != nil {
			if t, err := m.Temperature.Float64(); err != nil || t < 0 || t > 2 {
				here.error("BAD_FIELD", "the temperature of the role '%s' is %s, and may be 0.0 to 2.0", m.Role, *m.Temperature)
			}
		}
		for _, name := range m.Modalities {
			if !slices.Contains(modalities, name) {
				here.error("BAD_FIELD", "'%s' is no modality: %s are", name, strings.Join(modalities, ", "))
			}
		}
	}
}

func (c *checker) nodes() {
	seen := map[string]bool{}
	for i := range c.g.Nodes {
		n := &c.g.Nodes[i]
		here := c.node(i, n)
		switch {
		case n.ID == "":
			here.error("NAME_MISSING", "the node '%s' has no id", n.Label)
		case taken[n.ID]:
			here.error("BAD_NAME", "'%s' is no id for a node: expressions use that word for something else", n.ID)
		case !nodeID.MatchString(n.ID):
			here.error("BAD_NAME", "'%s' is no id for a node: letters, digits, _, . and - are allowed, at most 48", n.ID)
		case seen[n.ID]:
			here.error("NAME_TWICE", "there are two nodes of the id '%s'", n.ID)
		}
		seen[n.ID] = true
		if n.Label == "" {
			here.warning("NAME_MISSING", "node '%s' has no label", n.ID)
		}
		if !n.Type.Known() {
			here.field("type").error("BAD_KIND", "node '%s': there is no kind '%s': %s are", n.ID, n.Type, strings.Join(kindNames(), ", "))
			continue
		}
		c.ports(here, n)
		c.fields(here, n)
		c.rules(here, n)
	}
}

func (c *checker) ports(here place, n *Node) {
	for _, side := range []struct {
		name  string
		ports []Port
	}{{"inputs", n.Inputs}, {"outputs", n.Outputs}} {
		ids := map[string]bool{}
		for i, p := range side.ports {
			at := here.field(fmt.Sprintf("%s[%d]", side.name, i))
			switch {
			case p.ID == "":
				at.error("NAME_MISSING", "node '%s': a port has no id", n.ID)
			case ids[p.ID]:
				at.error("NAME_TWICE", "node '%s' has two ports of the id '%s'", n.ID, p.ID)
			}
			ids[p.ID] = true
		}
	}
	if n.Type.Entry() && len(n.Inputs) > 0 {
		here.field("inputs").error("BAD_PORT", "node '%s': an entry has no inputs", n.ID)
	}
}

// rules checks what the table of the kinds cannot say.
func (c *checker) rules(here place, n *Node) {
	set := func(name string) bool { v, ok := n.Config[name]; return ok && v != nil && v != "" }
	style, _ := n.Config["style"].(string)
	switch n.Type {
	case LogicLoop:
		if style == "while" {
			if !set("max_iterations") {
				here.field("config.max_iterations").error("NO_MAX_ITERATIONS", "node '%s': while loop missing max_iterations", n.ID)
			}
			if !set("when") {
				here.field("config.when").error("FIELD_MISSING", "node '%s': the while loop has no condition (when)", n.ID)
			}
		} else if !set("items") {
			here.field("config.items").error("FIELD_MISSING", "node '%s': the foreach loop has no items", n.ID)
		}
	case LogicDecision:
		if style == "match" && !set("subject") {
			here.field("config.subject").error("FIELD_MISSING", "node '%s': the match has no subject", n.ID)
		}
	case DataVariableSet:
		if name, ok := n.Config["name"].(string); ok && c.isNode(name) {
			here.field("config.name").error("NAME_TWICE", "node '%s' binds '%s', which is the id of a node", n.ID, name)
		}
	case ToolPlugin:
		c.signature(here, n)
	case EntrySchedule:
		if cron, ok := n.Config["cron"].(string); ok && len(strings.Fields(cron)) != 5 {
			here.field("config.cron").error("BAD_CRON", "node '%s': the schedule '%s' does not have the five fields of cron", n.ID, cron)
		}
		if zone, ok := n.Config["timezone"].(string); ok && zone == "" {
			here.field("config.timezone").error("BAD_FIELD", "node '%s': timezone is empty: write UTC", n.ID)
		}
	}
	for _, field := range []string{"llm_role", legacyRole} {
		if role, ok := n.Config[field].(string); ok && role != "" && specs[n.Type].Category == "llm" && n.Type != LLMRigid && !c.hasRole(role) {
			here.field("config."+field).error("NO_ROLE", "llm_role validation failed: node '%s': llm_role='%s' is not declared", n.ID, role)
		}
	}
}

func (c *checker) hasRole(role string) bool {
	identity := c.g.Config.Identity
	return identity != nil && slices.ContainsFunc(identity.Models, func(m Model) bool { return m.Role == role })
}

// signatures are the methods of the plugin mind, with the arguments that each needs.
var signatures = map[string][]string{
	"job": {"command_config"}, "train": {"training_config"}, "evaluate": {"benchmarks"},
	"pause": {"job_id"}, "resume": {"job_id"}, "cancel": {"job_id"},
}

// signature checks a call of the plugin mind. Mind does not know those of others.
func (c *checker) signature(here place, n *Node) {
	if plugin, _ := n.Config["plugin"].(string); plugin != "" && plugin != "mind" {
		return
	}
	method, _ := n.Config["method"].(string)
	if method == "" {
		method = "job"
	}
	needs, ok := signatures[method]
	if !ok {
		here.field("config.method").error("BAD_METHOD", "node '%s': mind has no method '%s': job, train, evaluate, pause, resume and cancel are there", n.ID, method)
		return
	}
	args, _ := n.Config["args"].(map[string]any)
	if _, whole := n.Config["args"].(string); whole && needs[0] != "job_id" {
		return // one place that is the whole body
	}
	for _, name := range needs {
		if args[name] == nil {
			here.field("config.args").error("ARG_MISSING", "node '%s': plugin call 'mind.%s': missing required arg '%s'", n.ID, method, name)
		}
	}
}
